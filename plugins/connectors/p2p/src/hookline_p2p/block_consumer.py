"""The consumer's half: requests blocks, checks them and writes them to the cache."""

from collections.abc import Callable, Sequence

from hookline_kv_transfer import TransferClosedError
from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_p2p.fetch import Fetch, LoadSink, Sink, Staged
from hookline_p2p.liveness import Liveness
from hookline_p2p.options import P2POptions
from hookline_p2p.params import Source
from hookline_p2p.releases import Releases
from hookline_p2p.results import Results
from hookline_p2p.tasks import LoadTask
from hookline_p2p.transport import Message, Peer, Transport
from hookline_p2p.wire import DENIALS, Ask, Blocks, Denial, Offer, checksums, encode

_WINDOW = 8
"""Maximum number of chunks in flight for one fetch."""

_RETRIES = 5
"""Divides the peer timeout into pauses between requests; each pause doubles."""

_USED_SECONDS = 1.0
"""How long staged blocks are kept after their first use."""

_LOST = frozenset({"peer", "refused"})
"""Failure reasons after which no release is sent: the producer cannot be reached."""


class BlockConsumer:
    """Fetches blocks from other engines; for one thread.

    A load is a fetch into KV blocks. Blocks that a producer offers before their request
    arrives are fetched into memory (staged), and copied when the load comes.
    """

    def __init__(
        self,
        blocks: KVBlocks,
        transport: Transport,
        results: Results,
        options: P2POptions,
        *,
        chunk_bytes: int,
    ) -> None:
        self._blocks = blocks
        self._transport = transport
        self._results = results
        self._options = options
        size = blocks.layout.total_bytes
        self._block_bytes = size
        self._chunk = max(1, chunk_bytes // size)
        self._last_number = 0
        self._fetches: dict[int, Fetch] = {}
        self._staged: dict[Source, Staged] = {}
        self._in_flight_bytes = 0
        self._liveness = Liveness(transport, options.peer_timeout_seconds)
        self._releases = Releases(transport, options.peer_timeout_seconds)

    @property
    def is_busy(self) -> bool:
        """Whether it waits for any message."""
        return bool(self._fetches or self._releases)

    @property
    def staged_bytes(self) -> int:
        """Memory of staged blocks, received or expected."""
        return sum(each.num_bytes for each in self._staged.values())

    # -- orders ------------------------------------------------------------------

    def load(self, task: LoadTask, source: Source, now: float) -> None:
        """Starts a load, from staged blocks if there are any."""
        staged = self._staged.get(source)
        if staged is None or not staged.has(task.block_hashes):
            self._fetch(source, task.block_hashes, LoadSink(self._blocks, task), now)
        elif staged.expires_at is None:
            staged.followers.append(task)
        else:
            self._fill(staged, task, now)

    def cancel(self, transfer_ids: Sequence[int]) -> None:
        """Ends loads that the engine has given up, and releases their blocks."""
        given_up = set(transfer_ids)
        for fetch in list(self._fetches.values()):
            sink = fetch.sink
            if isinstance(sink, LoadSink) and sink.task.transfer_id in given_up:
                self._end(fetch)
                self._release(fetch.source)
        for source, staged in list(self._staged.items()):
            rest = [
                each for each in staged.followers if each.transfer_id not in given_up
            ]
            had_some, staged.followers = bool(staged.followers), rest
            if had_some:
                self.forget(source)

    def forget(self, source: Source) -> None:
        """Drops staged blocks that no load waits for."""
        staged = self._staged.get(source)
        if staged is not None and staged.followers:
            return  # other choices of the request need them
        for fetch in list(self._fetches.values()):
            if fetch.source == source and isinstance(fetch.sink, Staged):
                self._end(fetch)
        self._staged.pop(source, None)
        self._release(source)

    # -- messages ----------------------------------------------------------------

    def on_offer(self, offer: Offer, now: float) -> str:
        """Starts to fetch offered blocks.

        Returns:
            The reason for a refusal; empty if the offer is accepted.
        """
        source = Source(
            Peer(offer.engine_id, offer.host, offer.port), offer.transfer_id
        )
        if source in self._staged:
            return ""
        if offer.fingerprint != self._blocks.layout.fingerprint or not offer.hashes:
            return "foreign"
        if not self._options.may_connect(offer.host):
            return "address"
        needed = len(offer.hashes) * self._block_bytes
        if self.staged_bytes + needed > self._options.max_staged_bytes:
            return "full"
        staged = Staged(offer.hashes, needed)
        self._staged[source] = staged
        self._fetch(source, offer.hashes, staged, now)
        return ""

    def on_activity(self, peer: Peer, now: float) -> None:
        """Notes that a peer has sent a message."""
        self._liveness.on_activity(peer, now)

    def on_blocks(self, message: Message, blocks: Blocks, now: float) -> None:
        """Writes blocks that were requested; duplicates are dropped."""
        fetch = self._fetches.get(blocks.number)
        if fetch is None or fetch.source.peer != message.sender:
            return
        if blocks.first not in fetch.asked:
            return
        hashes = fetch.hashes_from(blocks.first)
        if (layers := self._shaped(message.frames, len(hashes))) is None:
            self._fail(fetch, "malformed")
            return
        found = checksums(self._blocks.layout.fingerprint, hashes, layers)
        good = _num_equal(found, blocks.checksums)
        try:
            if good:
                fetch.sink.write(blocks.first, [layer[:good] for layer in layers])
        except TransferClosedError:  # given up: the engine's cancellation follows
            self._end(fetch)
            self._release(fetch.source)
            return
        fetch.note(blocks.first, good, now)
        if good < len(hashes):
            self._fail(fetch, "checksum")
            return
        self._arrived(fetch, blocks.first)
        if fetch.is_complete:
            self._complete(fetch, now)

    def on_denial(self, sender: object, denial: Denial) -> None:
        """Fails a fetch whose producer lacks the blocks."""
        fetch = self._fetches.get(denial.number)
        if fetch is not None and fetch.source.peer == sender:
            reason = denial.reason if denial.reason in DENIALS else "malformed"
            self._fail(fetch, reason)

    def on_released(self, peer: Peer, transfer_id: int) -> None:
        """Stops repeating a release that the producer has confirmed."""
        self._releases.confirmed(Source(peer, transfer_id))

    def on_refused(self, peer: Peer) -> None:
        """Fails the fetches from a producer that refuses connections."""
        self._fail_all(lambda fetch: fetch.source.peer == peer, "refused")

    # -- time --------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Sends further and repeated requests; gives up unreachable producers."""
        since: dict[Peer, float] = {}
        for fetch in self._fetches.values():
            peer = fetch.source.peer
            since[peer] = min(fetch.began_at, since.get(peer, now))
        for peer in self._liveness.look(since, now):
            self._fail_all(lambda each, gone=peer: each.source.peer == gone, "peer")  # type: ignore[misc]
            self._transport.forget(peer)
        self._expire(now)
        self._releases.tick(now)
        for fetch in self._fetches.values():
            if fetch.asked and now - fetch.news_at > fetch.pause:
                fetch.news_at, fetch.pause = now, 2 * fetch.pause
                for first in list(fetch.asked):
                    self._ask(fetch, first, now)
        self.ask_more(now)

    def ask_more(self, now: float) -> None:
        """Requests chunks up to the limits of what may be in flight."""
        for fetch in self._fetches.values():
            while fetch.to_ask and len(fetch.asked) < _WINDOW:
                size = self._chunk_bytes(fetch, fetch.to_ask[0])
                if (
                    self._in_flight_bytes
                    and self._in_flight_bytes + size > self._options.max_in_flight_bytes
                ):
                    return
                self._in_flight_bytes += size
                self._ask(fetch, fetch.to_ask.popleft(), now)

    def _expire(self, now: float) -> None:
        for source, staged in list(self._staged.items()):
            if staged.expires_at is not None and staged.expires_at <= now:
                del self._staged[source]
                if not staged.is_used:
                    self._results.incident("staged_expired")

    # -- fetches -----------------------------------------------------------------

    def _fetch(
        self, source: Source, hashes: Sequence[bytes], sink: Sink, now: float
    ) -> None:
        self._last_number += 1
        patience = self._options.peer_timeout_seconds / _RETRIES
        fetch = Fetch(
            self._last_number, source, hashes, self._chunk, sink, now, patience
        )
        self._fetches[fetch.number] = fetch

    def _ask(self, fetch: Fetch, first: int, now: float) -> None:
        if not fetch.asked:
            fetch.news_at = now
        fetch.asked[first] = now
        ask = Ask(
            fetch.number,
            first,
            fetch.source.peer.engine_id,
            fetch.source.transfer_id,
            self._blocks.layout.fingerprint,
            fetch.hashes_from(first),
        )
        self._transport.send(
            fetch.source.peer, encode(ask)
        )  # lost requests are repeated

    def _shaped(self, frames: Sequence[Bytes], count: int) -> list[Bytes] | None:
        """Returns the layers, each [blocks, bytes], or None if sizes are wrong."""
        sizes = self._blocks.layout.block_bytes
        if len(frames) != len(sizes):
            return None
        if any(
            frame.size != count * size
            for frame, size in zip(frames, sizes, strict=True)
        ):
            return None
        return [frame.reshape(count, -1) for frame in frames]

    def _arrived(self, fetch: Fetch, first: int) -> None:
        del fetch.asked[first]
        self._in_flight_bytes -= self._chunk_bytes(fetch, first)

    def _chunk_bytes(self, fetch: Fetch, first: int) -> int:
        return min(fetch.chunk, len(fetch.hashes) - first) * self._block_bytes

    def _end(self, fetch: Fetch) -> None:
        for first in list(fetch.asked):
            self._arrived(fetch, first)
        del self._fetches[fetch.number]

    def _complete(self, fetch: Fetch, now: float) -> None:
        self._end(fetch)
        self._release(fetch.source)
        if isinstance(fetch.sink, LoadSink):
            self._results.loaded(fetch.sink.task.transfer_id)
            return
        assert isinstance(fetch.sink, Staged)
        fetch.sink.expires_at = now + self._options.staged_seconds
        for task in fetch.sink.followers:
            self._fill(fetch.sink, task, now)

    def _release(self, source: Source) -> None:
        """Releases a producer's blocks, unless another fetch needs them."""
        if all(each.source != source for each in self._fetches.values()):
            self._releases.add(source)

    def _fill(self, staged: Staged, task: LoadTask, now: float) -> None:
        """Copies staged blocks to a load; other choices of the request may use them."""
        assert staged.expires_at is not None
        staged.is_used = True
        staged.expires_at = min(staged.expires_at, now + _USED_SECONDS)
        try:
            staged.fill(task.block_hashes, LoadSink(self._blocks, task))
        except TransferClosedError:
            return
        self._results.loaded(task.transfer_id)

    def _fail(self, fetch: Fetch, reason: str) -> None:
        self._end(fetch)
        if reason not in _LOST:
            self._release(fetch.source)
        if isinstance(fetch.sink, LoadSink):
            task = fetch.sink.task
            self._results.failed(task.transfer_id, reason, fetch.num_good)
            return
        assert isinstance(fetch.sink, Staged)
        self._staged.pop(fetch.source, None)
        self._results.incident(f"staging_{reason}")
        for task in fetch.sink.followers:
            self._results.failed(task.transfer_id, reason, 0)

    def _fail_all(self, concerns: Callable[[Fetch], bool], reason: str) -> None:
        for fetch in [each for each in self._fetches.values() if concerns(each)]:
            self._fail(fetch, reason)


def _num_equal(found: Sequence[int], expected: Sequence[int]) -> int:
    """Returns the number of leading blocks whose checksums match."""
    count = 0
    for one, other in zip(found, expected, strict=False):
        if one != other:
            break
        count += 1
    return count
