"""A fetch: blocks that a consumer requests of a producer, a chunk at a time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hookline_kv_transfer.blocks import Bytes, KVBlocks
from hookline_p2p.params import Source
from hookline_p2p.tasks import LoadTask


class Sink(Protocol):
    """Where received and checked blocks go."""

    def write(self, first: int, layers: Sequence[Bytes]) -> None:
        """Writes blocks from the index `first` on: each layer [blocks, bytes].

        Raises:
            TransferClosedError: The transfer has ended.
        """
        ...


@dataclass(slots=True)
class Fetch:
    """A fetch in progress; times are in seconds.

    Attributes:
        number: Id of the fetch in this engine.
        source: Where the blocks are.
        hashes: Hashes of the blocks, in order.
        chunk: Blocks requested by one message.
        sink: Where the blocks go.
        began_at: Time of the start.
        patience: Time without an answer before the first repeated request.
        to_ask: Index of the first block of each chunk that is not requested yet.
        asked: Time of the request of each chunk in flight, by its first block.
        good: For each block, whether it has arrived.
        news_at: Time of the last answer or repeated request.
        pause: Time without an answer before the next repeated request.
    """

    number: int
    source: Source
    hashes: Sequence[bytes]
    chunk: int
    sink: Sink
    began_at: float
    patience: float
    to_ask: deque[int] = field(init=False)
    asked: dict[int, float] = field(default_factory=dict)
    good: bytearray = field(init=False)
    news_at: float = field(init=False)
    pause: float = field(init=False)

    def __post_init__(self) -> None:
        self.to_ask = deque(range(0, len(self.hashes), self.chunk))
        self.good = bytearray(len(self.hashes))
        self.news_at, self.pause = self.began_at, self.patience

    @property
    def is_complete(self) -> bool:
        return not self.to_ask and not self.asked

    @property
    def num_good(self) -> int:
        """Number of leading blocks that have arrived."""
        missing = self.good.find(0)
        return len(self.good) if missing < 0 else missing

    def hashes_from(self, first: int) -> list[bytes]:
        """Returns the hashes of the chunk that starts at a block."""
        return list(self.hashes[first : first + self.chunk])

    def note(self, first: int, count: int, now: float) -> None:
        """Notes `count` blocks that have arrived."""
        self.good[first : first + count] = b"\1" * count
        self.news_at, self.pause = now, self.patience


class LoadSink:
    """Writes to the KV blocks of a load."""

    def __init__(self, blocks: KVBlocks, task: LoadTask) -> None:
        self.task = task
        self._blocks = blocks

    def write(self, first: int, layers: Sequence[Bytes]) -> None:
        """See `Sink`."""
        task = self.task
        for layer, data in enumerate(layers):
            block_ids = task.block_ids[first : first + len(data)]
            self._blocks.write_blocks(task.transfer_id, layer, block_ids, data)


class Staged:
    """Blocks in memory that arrive before their request.

    Attributes:
        hashes: Hashes of the blocks, in order.
        num_bytes: Size of all blocks.
        expires_at: Time at which they are dropped; None until they are complete.
        followers: Loads that wait for them.
        is_used: Whether a load was filled from them.
    """

    def __init__(self, hashes: Sequence[bytes], num_bytes: int) -> None:
        self.hashes = hashes
        self.num_bytes = num_bytes
        self.expires_at: float | None = None
        self.followers: list[LoadTask] = []
        self.is_used = False
        self._chunks: dict[int, Sequence[Bytes]] = {}

    def write(self, first: int, layers: Sequence[Bytes]) -> None:
        """See `Sink`."""
        self._chunks[first] = layers

    def has(self, hashes: Sequence[bytes]) -> bool:
        """Whether it has these blocks, in this order."""
        start = self._index(hashes)
        return start is not None and self.hashes[start : start + len(hashes)] == hashes

    def fill(self, hashes: Sequence[bytes], sink: Sink) -> None:
        """Copies blocks to another sink; it must have them."""
        start = self._index(hashes)
        assert start is not None
        for first, layers in self._chunks.items():
            begin = max(start, first)
            end = min(start + len(hashes), first + len(layers[0]))
            if begin < end:
                part = [layer[begin - first : end - first] for layer in layers]
                sink.write(begin - start, part)

    def _index(self, hashes: Sequence[bytes]) -> int | None:
        return self.hashes.index(hashes[0]) if hashes[0] in self.hashes else None
