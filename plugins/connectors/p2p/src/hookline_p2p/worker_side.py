"""The worker's side: moves blocks between engines, in one thread."""

import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence

import msgspec

from hookline_kv_transfer import (
    ConnectorMetadata,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import KVBlocks
from hookline_p2p.block_consumer import BlockConsumer
from hookline_p2p.block_producer import BlockProducer
from hookline_p2p.options import P2POptions
from hookline_p2p.params import Source
from hookline_p2p.results import Results
from hookline_p2p.tasks import Address, KeepTask, LoadTask, Place, Tasks
from hookline_p2p.transport import CHUNK_BYTES, Message, Peer, Transport, Visitor
from hookline_p2p.wire import (
    Ask,
    Blocks,
    Denial,
    Offer,
    Ping,
    Pong,
    Release,
    Released,
    Reply,
    decode,
    encode,
)
from hookline_registry import Failure, FailureLog, isolate

_BUSY_SECONDS, _IDLE_SECONDS = 0.05, 1.0
"""Longest pause between two checks of deadlines; messages are handled at once."""

_SHUTDOWN_SECONDS = 5.0


class WorkerSide:
    """Passes orders to the thread, and results to the engine."""

    capabilities = WorkerCapabilities(needs_layers=False, works_in_ranks=True)

    def __init__(
        self,
        options: P2POptions,
        transport: Transport,
        *,
        rank: int = 0,
        num_ranks: int = 1,
        takes_pushed: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the worker's side; threads and sockets start with the blocks.

        Args:
            options: The connector's options.
            transport: Carries messages to other engines.
            rank: Index of this rank among those that share the model.
            num_ranks: Number of these ranks; each transfers with its twin of another
                engine.
            takes_pushed: Whether to fetch offered blocks before their request comes.
            chunk_bytes: Approximate size of a message with blocks.
            clock: Seconds, for time-outs.
        """
        self._chunk_bytes = chunk_bytes
        self._options = options
        self._rank, self._num_ranks = rank, num_ranks
        self._transport = transport
        self._takes_pushed = takes_pushed
        self._orders: queue.SimpleQueue[Tasks] = queue.SimpleQueue()
        self._results = Results()
        self._failures = FailureLog("KV connector p2p")
        self._is_over = False
        self._time = 0.0
        self._clock = clock
        self._looked_at = clock()
        self._thread: threading.Thread | None = None

    def register_kv_caches(self, blocks: KVBlocks) -> bytes:
        """Starts to listen; returns this engine's id and port.

        Raises:
            ConfigError: It cannot listen.
        """
        engine_id = uuid.uuid4().hex
        port = self._transport.listen(engine_id, blocks.layout.total_bytes)
        own = Peer(engine_id, self._options.public_host, port)
        self._producer = BlockProducer(
            blocks,
            self._transport,
            self._results,
            own,
            timeout_seconds=self._options.peer_timeout_seconds,
            chunk_bytes=self._chunk_bytes,
        )
        self._consumer = BlockConsumer(
            blocks,
            self._transport,
            self._results,
            self._options,
            chunk_bytes=self._chunk_bytes,
        )
        self._thread = threading.Thread(
            target=self._run, name="hookline-p2p", daemon=True
        )
        self._thread.start()
        return msgspec.msgpack.encode(Address(engine_id, port))

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        self._orders.put(msgspec.msgpack.decode(metadata.payload, type=Tasks))
        self._transport.wake()

    def wait_for_layer_load(self, layer_index: int) -> None:
        """All loads are asynchronous."""

    def save_kv_layer(self, layer_index: int) -> None:
        """Blocks are read when another engine requests them."""

    def wait_for_save(self) -> None:
        """Kept blocks are not overwritten."""

    def get_finished(self) -> TransferResults:
        return self._results.collect()

    def shutdown(self) -> None:
        """Waits a few seconds at most."""
        self._is_over = True
        if self._thread is not None:
            self._transport.wake()
            self._thread.join(_SHUTDOWN_SECONDS)

    def _run(self) -> None:
        while not self._is_over:
            outcome = isolate(self._turn)
            if isinstance(outcome, Failure):
                # Messages are checked one by one, so this is a bug here.
                self._results.incident("raised")
                self._failures.log(("raised",), outcome.summary, error=outcome.error)
                time.sleep(_BUSY_SECONDS)
        self._transport.close()

    def _turn(self) -> None:
        """Handles messages and orders, then whatever is due."""
        is_busy = self._consumer.is_busy or self._producer.is_busy
        pause = _BUSY_SECONDS if is_busy else _IDLE_SECONDS
        pause = min(pause, self._options.peer_timeout_seconds / 8)
        messages = self._transport.poll(pause)
        now = self._now(pause)
        self._take_orders(now)
        for message in messages:
            self._handle(message, now)
        refusals = self._transport.refusals()
        if refusals.visitors:
            self._results.incident("refused", refusals.visitors)
        for peer in refusals.peers:
            self._consumer.on_refused(peer)
            self._producer.on_refused(peer)
        self._producer.tick(now)
        self._consumer.tick(now)

    def _now(self, pause: float) -> float:
        """Returns the seconds that this thread has listened.

        Time in which the thread did not run counts against no other engine's timeout.
        """
        now = self._clock()
        self._time += min(now - self._looked_at, 2 * pause)
        self._looked_at = now
        return self._time

    def _take_orders(self, now: float) -> None:
        while not self._orders.empty():
            tasks = self._orders.get()
            for keep in tasks.keeps:
                self._producer.keep(self._at_twin(keep), now)
            for load in tasks.loads:
                self._load(load, now)
            self._producer.drop(tasks.cancelled)  # maybe some of these keeps
            self._consumer.cancel(tasks.cancelled)
            for places in tasks.unwanted:
                self._forget(places)
            if tasks.bad_params:
                self._results.incident("bad_params", tasks.bad_params)

    def _load(self, task: LoadTask, now: float) -> None:
        """Starts a load from this rank's twin; a producer divided otherwise has none.

        One divided among as many ranks in another way denies each request.
        """
        if len(task.places) == self._num_ranks:
            self._consumer.load(task, _source(task.places[self._rank]), now)
            return
        detail = (
            f"the producer's KV is divided among {len(task.places)} ranks, this "
            f"engine's among {self._num_ranks}: both need the same division "
            "(tensor-parallel-size, pipeline-parallel-size)"
        )
        self._failures.log(("foreign",), detail)
        self._results.failed(task.transfer_id, "foreign", 0)
        self._forget(task.places)

    def _forget(self, places: Sequence[Place]) -> None:
        """Releases what the producer keeps; its ranks are divided among this one's."""
        for place in places[self._rank :: self._num_ranks]:
            self._consumer.forget(_source(place))

    def _at_twin(self, task: KeepTask) -> KeepTask:
        """Returns the task with the decoder's rank to offer this rank's blocks to."""
        if task.decoder is None:
            return task
        host, port = task.decoder
        return msgspec.structs.replace(task, decoder=(host, port + self._rank))

    def _handle(self, message: Message, now: float) -> None:
        sender, word = message.sender, decode(message.header)
        if word is None:
            self._results.incident("malformed")
        elif isinstance(sender, Visitor):
            self._handle_visitor(sender, word, now)
        else:
            self._consumer.on_activity(sender, now)
            self._handle_peer(sender, word, message, now)

    def _handle_visitor(self, visitor: Visitor, word: object, now: float) -> None:
        match word:
            case Ask():
                self._producer.on_ask(visitor, word)
            case Release():
                self._producer.on_release(visitor, word)
            case Offer():
                refusal = "unwilling"
                if self._takes_pushed:
                    refusal = self._consumer.on_offer(word, now)
                reply = Reply(word.transfer_id, refusal)
                self._transport.send(visitor, encode(reply))
            case Ping():
                self._transport.send(visitor, encode(Pong()))
            case _:
                self._results.incident("malformed")

    def _handle_peer(
        self, peer: Peer, word: object, message: Message, now: float
    ) -> None:
        match word:
            case Blocks():
                self._consumer.on_blocks(message, word, now)
            case Denial():
                self._consumer.on_denial(peer, word)
            case Released():
                self._consumer.on_released(peer, word.transfer_id)
            case Reply():
                self._producer.on_reply(peer, word)
            case Pong():
                pass
            case _:
                self._results.incident("malformed")


def _source(place: Place) -> Source:
    peer = Peer(place.engine_id, place.host, place.port)
    return Source(peer, place.transfer_id)
