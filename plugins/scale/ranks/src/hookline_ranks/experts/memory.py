"""The memory in which the ranks of several engines exchange tokens and results.

| part | written by | read by |
|---|---|---|
| for each rank: how many pairs it has computed | the rank | all, between steps |
| for each engine: its next rows, with chosen experts | its first rank | all |
| for each rank and engine: results for its rows | the rank | the engine's ranks |

Tokens pass in rounds of as many rows as `SLOT_BYTES` of results hold, so that the size
does not depend on the longest step.
"""

import ctypes
import math
from typing import NamedTuple

import torch

from hookline_kernels import import_compiled
from hookline_ranks.experts.expert_group import ExpertTokens
from hookline_ranks.experts.expert_placement import ExpertPlace
from hookline_ranks.processes.shared_memory import SharedMemory

SLOT_BYTES = 4 << 20
"""Most bytes of a rank's results for one engine in a round."""
MOST_CHOSEN = 64
"""Most experts that are chosen for a token."""

_PAGE = 4096
_WORD = 8
_LINE = 8
"""Words of a cache line: each rank's number has its own."""
_HEAD = _PAGE
"""Bytes of an engine's head: tokens of its step, experts for each, dtype of weights."""
_FLOAT = torch.float32
"""Of results, and of the weights as they pass."""
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Of the weights of experts' results, by their number in a head."""


class ExpertMemory:
    """One rank's view of the memory.

    Attributes:
        rows: Most rows of an engine that pass in a round.
        address: Where ranks meet, of `meeting.HEAD_BYTES`.
    """

    def __init__(
        self,
        descriptor: int,
        place: ExpertPlace,
        *,
        width: int,
        dtype: torch.dtype,
        max_tokens: int,
    ) -> None:
        """Maps it, with the same sizes in all ranks.

        Args:
            descriptor: The inherited memory.
            place: The rank's place.
            width: Size of a hidden state.
            dtype: Data type of hidden states.
            max_tokens: Largest number of tokens of an engine's step.

        Raises:
            KernelError: No compiler is installed.
        """
        meeting = import_compiled("hookline_kernels.cpu.meeting")
        self._place = place
        layout = _Layout(
            place, width, dtype, max_tokens=max_tokens, start=meeting.HEAD_BYTES
        )
        self.rows = layout.rows
        self._memory = SharedMemory(layout.total, descriptor)
        view = self._memory.view
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        self._counts = layout.counts.words(view)
        self._sources = [each.of(view) for each in layout.sources]
        self._results = layout.results.tensor(view)

    # -- tokens ------------------------------------------------------------------

    def put(self, total: int, rows: ExpertTokens | None) -> None:
        """Writes the next rows of this rank's engine, whose step has `total`."""
        self._sources[self._place.engine].put(total, rows)

    @property
    def longest(self) -> int:
        """Number of tokens of the engine that has most of them in this step."""
        return max(source.total for source in self._sources)

    def rows_of(self, engine: int, start: int) -> ExpertTokens | None:
        """Returns an engine's rows from `start` on; None if it has no more."""
        return self._sources[engine].rows_from(start, self.rows)

    # -- results -----------------------------------------------------------------

    def result_for(self, engine: int, rows: int) -> torch.Tensor:
        """Where this rank leaves its results for an engine's rows, [rows, width]."""
        return self._results[self._place.rank, engine, :rows]

    def results(self, rows: int) -> list[torch.Tensor]:
        """What the ranks with this one's index leave for its engine, by engine."""
        place, apart = self._place, self._place.ranks_of_engine
        return [
            self._results[rank, place.engine, :rows]
            for rank in range(place.tensor_rank, place.size, apart)
        ]

    # -- counts ------------------------------------------------------------------

    def count(self, pairs: int) -> None:
        """Adds to the number of pairs that this rank has computed."""
        self._counts[self._place.rank * _LINE] += pairs

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of pairs that each rank has computed."""
        return tuple(self._counts[::_LINE])


class _Part(NamedTuple):
    """Where a tensor, or words, are in the memory.

    Attributes:
        start: Its first byte.
        dtype: Data type of its numbers.
        shape: Its shape.
    """

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """Byte behind it."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize

    def words(self, view: memoryview) -> memoryview:
        """Returns its words, which are int64."""
        return view[self.start : self.end].cast("q")

    def tensor(self, view: memoryview) -> torch.Tensor:
        """Returns the tensor, in the memory."""
        flat = torch.frombuffer(view, dtype=torch.uint8)
        return flat[self.start : self.end].view(self.dtype).view(self.shape)


class _SourceParts(NamedTuple):
    """Where the rows of an engine are."""

    head: _Part
    chosen: _Part
    weights: _Part
    hidden: _Part

    def of(self, view: memoryview) -> "_Source":
        """Returns the rows."""
        return _Source(
            self.head.words(view),
            self.chosen.tensor(view),
            self.weights.tensor(view),
            self.hidden.tensor(view),
        )


class _Layout:
    """Lays out the memory; each part begins with a page.

    Attributes:
        rows: Most rows of an engine that pass in a round.
        counts: How many pairs each rank has computed, each in a line of its own.
        sources: The rows of each engine.
        results: Of each rank for each engine's rows.
        total: Size of the memory in bytes.
    """

    def __init__(
        self,
        place: ExpertPlace,
        width: int,
        dtype: torch.dtype,
        *,
        max_tokens: int,
        start: int,
    ) -> None:
        """Lays out what `ExpertMemory` describes, from byte `start` on."""
        self.total = start
        self.rows = max(1, min(max_tokens, SLOT_BYTES // (width * _FLOAT.itemsize)))
        self.counts = self._part(torch.int64, place.size * _LINE)
        self.sources = [
            _SourceParts(
                self._part(torch.int64, _HEAD // _WORD),
                self._part(torch.int64, self.rows, MOST_CHOSEN),
                self._part(_FLOAT, self.rows, MOST_CHOSEN),
                self._part(dtype, self.rows, width),
            )
            for _ in range(place.engines)
        ]
        self.results = self._part(_FLOAT, place.size, place.engines, self.rows, width)

    def _part(self, dtype: torch.dtype, *shape: int) -> _Part:
        part = _Part(self.total, dtype, shape)
        self.total += -(-(part.end - part.start) // _PAGE) * _PAGE
        return part


class _Source:
    """The rows of an engine."""

    def __init__(
        self,
        head: memoryview,
        chosen: torch.Tensor,
        weights: torch.Tensor,
        hidden: torch.Tensor,
    ) -> None:
        self._head = head
        self._chosen, self._weights, self._hidden = chosen, weights, hidden

    @property
    def total(self) -> int:
        found: int = self._head[0]
        return found

    def put(self, total: int, rows: ExpertTokens | None) -> None:
        self._head[0] = total
        if rows is None:
            return
        count, most = rows.chosen.shape
        self._head[1], self._head[2] = most, _DTYPES.index(rows.weights.dtype)
        self._chosen[:count, :most].copy_(rows.chosen)
        self._weights[:count, :most].copy_(rows.weights)
        self._hidden[:count].copy_(rows.hidden)

    def rows_from(self, start: int, most: int) -> ExpertTokens | None:
        count = min(self.total - start, most)
        if count <= 0:
            return None
        chosen, dtype = self._head[1], _DTYPES[self._head[2]]
        return ExpertTokens(
            self._hidden[:count],
            self._chosen[:count, :chosen],
            self._weights[:count, :chosen].to(dtype),
        )
