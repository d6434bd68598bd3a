"""A fetch: blocks that a consumer asks a producer for, a few at a time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hookline.kv_transfer.blocks import Bytes, KVBlocks
from hookline_p2p.params import Source
from hookline_p2p.tasks import LoadTask


class Sink(Protocol):
    """Where blocks go that have come and are right."""

    def write(self, first: int, layers: Sequence[Bytes]) -> None:
        """Takes blocks from the index `first`: each layer [blocks, bytes].

        Raises:
            TransferClosedError: They are not wanted any longer.
        """
        ...


@dataclass(slots=True)
class Fetch:
    """Under way.

    Attributes:
        number: Of this engine's own.
        source: Where the blocks are.
        hashes: Of the blocks.
        chunk: So many are asked for at once.
        sink: Where they go.
        began_at: When.
        patience: Without news, before it is asked again for the first time.
        to_ask: Indices of chunks' first blocks.
        asked: Of those asked for, when.
        good: Of each block, whether it has come.
        news_at: When something has come of it, or was asked again.
        pause: Without news, before the next time.
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
        """Blocks from the first that have come."""
        missing = self.good.find(0)
        return len(self.good) if missing < 0 else missing

    def hashes_from(self, first: int) -> list[bytes]:
        """Of the chunk that begins there."""
        return list(self.hashes[first : first + self.chunk])

    def note(self, first: int, count: int, now: float) -> None:
        """So many blocks have come."""
        self.good[first : first + count] = b"\1" * count
        self.news_at, self.pause = now, self.patience


class LoadSink:
    """The blocks of a load."""

    def __init__(self, blocks: KVBlocks, task: LoadTask) -> None:
        self.task = task
        self._blocks = blocks

    def write(self, first: int, layers: Sequence[Bytes]) -> None:
        """As of `Sink`."""
        task = self.task
        for layer, data in enumerate(layers):
            block_ids = task.block_ids[first : first + len(data)]
            self._blocks.write_blocks(task.transfer_id, layer, block_ids, data)


class Staged:
    """Blocks that came before their request; a sink of their own.

    Attributes:
        hashes: Of the blocks.
        num_bytes: Of all of them.
        expires_at: When they are given up; set once they are complete.
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
        """As of `Sink`."""
        self._chunks[first] = layers

    def has(self, hashes: Sequence[bytes]) -> bool:
        """Whether these are among them, one behind another."""
        start = self._index(hashes)
        return start is not None and self.hashes[start : start + len(hashes)] == hashes

    def fill(self, hashes: Sequence[bytes], sink: Sink) -> None:
        """Gives some of the blocks, which it must have, to another sink."""
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
