"""The producer's half: keeps blocks of finished requests and serves them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from hookline_kv_transfer import TransferClosedError
from hookline_kv_transfer.blocks import KVBlocks
from hookline_p2p.results import Results
from hookline_p2p.tasks import KeepTask
from hookline_p2p.transport import Peer, Transport, Visitor
from hookline_p2p.wire import (
    REFUSALS,
    Ask,
    Blocks,
    Denial,
    Offer,
    Release,
    Released,
    Reply,
    checksums,
    encode,
)

_MOST_EARLY = 256
_RETRIES = 10
"""Divides the timeout into pauses between offers; each pause doubles."""


@dataclass(slots=True)
class _OpenOffer:
    """An offer that the decoder has not answered.

    Attributes:
        peer: The decoder.
        header: The message.
        began_at: Time of the first attempt, in seconds.
        due_at: Time of the next attempt, in seconds.
        pause: Seconds between the last attempt and the next.
    """

    peer: Peer
    header: bytes
    began_at: float
    due_at: float
    pause: float


class BlockProducer:
    """Serves kept blocks to other engines; for one thread.

    A request's answer may reach the consumer, and the consumer's messages this thread,
    before the order to keep the blocks does. Messages that are so early wait.
    """

    def __init__(
        self,
        blocks: KVBlocks,
        transport: Transport,
        results: Results,
        own: Peer,
        *,
        timeout_seconds: float,
        chunk_bytes: int,
    ) -> None:
        self._blocks = blocks
        self._transport = transport
        self._results = results
        self._own = own
        self._timeout = timeout_seconds
        self._most_blocks = max(1, chunk_bytes // blocks.layout.total_bytes)
        self._kept: dict[int, dict[bytes, int]] = {}
        self._offers: dict[int, _OpenOffer] = {}
        self._latest = 0
        self._early_asks: deque[tuple[Visitor, Ask]] = deque(maxlen=_MOST_EARLY)
        self._early_releases: deque[int] = deque(maxlen=_MOST_EARLY)

    @property
    def is_busy(self) -> bool:
        """Whether an offer is unanswered."""
        return bool(self._offers)

    def keep(self, task: KeepTask, now: float) -> None:
        """Keeps blocks, and offers them to the decoder if one is named."""
        self._latest = task.transfer_id
        if task.transfer_id in self._early_releases:
            self._results.saved(task.transfer_id)
            return
        self._kept[task.transfer_id] = dict(
            zip(task.block_hashes, task.block_ids, strict=True)
        )
        if task.decoder is not None:
            self._offer(task, Peer("", *task.decoder), now)
        waiting, self._early_asks = self._early_asks, deque(maxlen=_MOST_EARLY)
        for visitor, ask in waiting:
            self.on_ask(visitor, ask)

    def drop(self, transfer_ids: Sequence[int]) -> None:
        """Forgets transfers that the engine has given up."""
        for transfer_id in transfer_ids:
            self._kept.pop(transfer_id, None)
            self._offers.pop(transfer_id, None)

    def on_ask(self, visitor: Visitor, ask: Ask) -> None:
        """Sends blocks, or the reason for a denial."""
        if ask.engine_id != self._own.engine_id:
            self._deny(visitor, ask, "gone")
        elif ask.fingerprint != self._blocks.layout.fingerprint:
            self._deny(visitor, ask, "foreign")
        elif ask.transfer_id > self._latest:
            self._early_asks.append((visitor, ask))
        elif (kept := self._kept.get(ask.transfer_id)) is None:
            self._deny(visitor, ask, "gone")
        else:
            self._send_blocks(visitor, ask, kept)

    def on_release(self, visitor: Visitor, release: Release) -> None:
        """Frees blocks, and confirms each release, also repeated ones."""
        transfer_id = release.transfer_id
        self._transport.send(visitor, encode(Released(transfer_id)))
        if release.engine_id != self._own.engine_id:
            return
        self._offers.pop(transfer_id, None)
        if self._kept.pop(transfer_id, None) is not None:
            self._results.saved(transfer_id)
        elif transfer_id > self._latest:
            self._early_releases.append(transfer_id)

    def on_reply(self, peer: Peer, reply: Reply) -> None:
        """Ends an offer: the decoder fetches the blocks now, or refuses."""
        offer = self._offers.get(reply.transfer_id)
        if offer is None or offer.peer != peer:
            return
        del self._offers[reply.transfer_id]
        if reply.refusal:
            known = reply.refusal in REFUSALS
            self._results.incident(f"push_{reply.refusal if known else 'malformed'}")

    def on_refused(self, peer: Peer) -> None:
        """Ends the offers to a decoder that refuses connections."""
        self._end_offers(
            [key for key, each in self._offers.items() if each.peer == peer]
        )

    def tick(self, now: float) -> None:
        """Repeats offers that are unanswered, and ends those past the timeout."""
        self._end_offers(
            [
                key
                for key, each in self._offers.items()
                if now - each.began_at > self._timeout
            ]
        )
        for offer in self._offers.values():
            if offer.due_at <= now:
                offer.pause *= 2
                offer.due_at = now + offer.pause
                self._transport.send(offer.peer, offer.header)

    def _offer(self, task: KeepTask, peer: Peer, now: float) -> None:
        fingerprint = self._blocks.layout.fingerprint
        offer = Offer(*self._own, task.transfer_id, fingerprint, task.block_hashes)
        header = encode(offer)
        pause = self._timeout / _RETRIES
        self._offers[task.transfer_id] = _OpenOffer(
            peer, header, now, now + pause, pause
        )
        self._transport.send(peer, header)

    def _end_offers(self, transfer_ids: Sequence[int]) -> None:
        for transfer_id in transfer_ids:
            del self._offers[transfer_id]
            self._results.incident("push_unanswered")

    def _send_blocks(self, visitor: Visitor, ask: Ask, kept: dict[bytes, int]) -> None:
        layout = self._blocks.layout
        block_ids = [kept[each] for each in ask.hashes if each in kept]
        if len(block_ids) < len(ask.hashes) or not block_ids:
            self._deny(visitor, ask, "missing")
            return
        if len(block_ids) > self._most_blocks:
            self._deny(visitor, ask, "malformed")
            return
        try:
            layers = [
                self._blocks.read_blocks(layer, block_ids, transfer_id=ask.transfer_id)
                for layer in range(layout.num_layers)
            ]
        except TransferClosedError:
            self._deny(visitor, ask, "gone")
            return
        sums = checksums(layout.fingerprint, ask.hashes, layers)
        # The consumer asks again if the transport drops it.
        header = encode(Blocks(ask.number, ask.first, sums))
        self._transport.send(visitor, header, layers)

    def _deny(self, visitor: Visitor, ask: Ask, reason: str) -> None:
        self._transport.send(visitor, encode(Denial(ask.number, reason)))
