"""Records the kernels that a step starts, so that a program can start them again.

While a thread records, kernels' results get memory that stays allocated, and arguments
are copied at each start. Inputs that change from step to step must stay at the same
addresses; attention, whose work depends on the lengths of requests, updates its
recorded arguments itself (`ReplayedAttention`).
"""

import math
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hookline_kernels.cpu.program import Program
from hookline_kernels.metadata import AttentionMetadata

Int64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_PIECE_BYTES = 4 << 20
_ALIGNMENT = 64


class ReplayedAttention(Protocol):
    """Attention of some layers of a recorded step, which differs in each step."""

    def prepare(self, calls: Int64, batch: AttentionMetadata) -> int | None:
        """Writes a step's arguments into the recorded ones.

        Args:
            calls: [layers, arguments] recorded arguments.
            batch: A step with as many tokens as the recorded one.

        Returns:
            Number of threads that pay for the work; None if the recording does not fit
            this step, which then must not be replayed.
        """
        ...


class Arena:
    """Memory for kernels' results, shared by all programs.

    Unreferenced memory is reused first, while it is still in the CPU's caches. So a
    program reuses memory where the recorded step did.
    """

    def __init__(self) -> None:
        self._pieces: list[Bytes] = []
        self._used = 0
        self._free: defaultdict[int, list[Bytes]] = defaultdict(list)

    def new(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Returns an uninitialised contiguous tensor."""
        size = math.prod(shape) * dtype.itemsize
        # Sizes are powers of two, so that programs of many sizes share few pieces.
        free = self._free[max(_ALIGNMENT, 1 << (size - 1).bit_length())]
        room = free.pop() if free else self._more(max(size, 1))
        held = room[:size]  # a new object, which lives as long as the tensor
        weakref.finalize(held, free.append, room)
        return _as_tensor(held, shape, dtype)

    def retain(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a tensor over the same memory that does not keep it allocated.

        Raises:
            ValueError: The tensor lies outside of the arena.
        """
        address, size = tensor.data_ptr(), tensor.nbytes
        for piece in self._pieces:
            start = address - piece.ctypes.data
            if 0 <= start < len(piece):
                held = piece[start : start + size]
                return _as_tensor(held, tensor.shape, tensor.dtype)
        raise ValueError("the tensor lies outside of the arena")

    def fill_with_nan(self) -> None:
        """Overwrites everything with not-a-number, so that stale results are seen."""
        for piece in self._pieces:
            piece.fill(0xFF)

    def _more(self, size: int) -> Bytes:
        """Returns `size` bytes, rounded up to a power of two, of a large piece."""
        size = max(_ALIGNMENT, 1 << (size - 1).bit_length())
        if not self._pieces or self._used + size > len(self._pieces[-1]):
            # Of numpy: while a step is recorded, torch's operations are watched.
            piece = np.empty(max(size, _PIECE_BYTES) + _ALIGNMENT, np.uint8)
            self._pieces.append(piece[-piece.ctypes.data % _ALIGNMENT :])
            self._used = 0
        self._used += size
        return self._pieces[-1][self._used - size : self._used]


def _as_tensor(memory: Bytes, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(memory).view(dtype).view(*shape)


class Recorder:
    """The kernels that one thread starts inside of `recording`.

    Attributes:
        is_refused: The step cannot be replayed.
    """

    def __init__(self, arena: Arena) -> None:
        """Creates a recorder whose kernels' results are in `arena`."""
        self._arena = arena
        self._starts: list[tuple[int, Int64, bool]] = []
        self._attentions: dict[ReplayedAttention, list[int]] = {}
        self.is_refused = False

    def new(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Returns memory for a kernel's result."""
        return self._arena.new(shape, dtype)

    def start(self, function: int, numbers: Int64, *, is_alone: bool) -> None:
        """Records a kernel; argument 0 counts the work items that threads took."""
        self._starts.append((function, numbers, is_alone))

    def attend(self, function: int, numbers: Int64, replay: ReplayedAttention) -> None:
        """Records attention; its arguments 0 and 1 are such counters."""
        self._attentions.setdefault(replay, []).append(len(self._starts))
        self._starts.append((function, numbers, True))

    def refuse(self) -> None:
        """Marks the step as one that cannot be replayed."""
        self.is_refused = True

    def recording(self) -> "Recording":
        """Returns the recorded kernels as a program."""
        return Recording(self._starts, self._attentions, self._arena)


class Recording:
    """A program of kernels and their arguments."""

    def __init__(
        self,
        starts: Sequence[tuple[int, Int64, bool]],
        attentions: dict[ReplayedAttention, list[int]],
        memory: object,
    ) -> None:
        """Wraps a recorder's kernels; keeps the `memory` of their results alive."""
        self._kept = memory
        width = max((len(numbers) for _, numbers, _ in starts), default=0)
        self._arguments = np.zeros((len(starts), width), np.int64)
        for row, (_, numbers, _) in zip(self._arguments, starts, strict=True):
            row[: len(numbers)] = numbers
        self._attentions = {each: np.array(rows) for each, rows in attentions.items()}
        first, step = self._arguments.ctypes.data, self._arguments.strides[0]
        self._program = Program(
            [
                (function, first + step * row, is_alone)
                for row, (function, _, is_alone) in enumerate(starts)
            ]
        )

    def run(self, batch: AttentionMetadata) -> bool:
        """Replays the step; returns False, and does nothing, if it does not fit."""
        arguments, entries = self._arguments, self._program.entries
        for attention, rows in self._attentions.items():
            calls = arguments[rows]
            threads = attention.prepare(calls, batch)
            if threads is None:
                return False
            arguments[rows] = calls
            arguments[rows, 1] = 0
            entries[rows, 2] = threads == 1
        arguments[:, 0] = 0
        self._program.run()
        return True


class _Current(threading.local):
    """This thread's recorder, if it is recording."""

    recorder: Recorder | None = None


current = _Current()


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Records the kernels that this thread starts, which run as usual.

    Operations of torch cannot be recorded: they mark the step as refused.
    """
    current.recorder = recorder
    try:
        with _Watch(recorder):
            yield
    finally:
        current.recorder = None


class _Watch(TorchDispatchMode):
    """Refuses all operations of torch but views of the same memory."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        _types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        found = func(*args, **(kwargs or {}))
        if not getattr(func, "is_view", False) or not _is_view_of(found, args[0]):
            self._recorder.refuse()
        return found


def _is_view_of(found: object, at: object) -> bool:
    parts = found if isinstance(found, list | tuple) else [found]
    return isinstance(at, torch.Tensor) and all(
        isinstance(part, torch.Tensor)
        and part.untyped_storage().data_ptr() == at.untyped_storage().data_ptr()
        for part in parts
    )


def fresh(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Returns uninitialised contiguous memory for a kernel's result."""
    if (recorder := current.recorder) is not None:
        return recorder.new(shape, dtype)
    return torch.empty(shape, dtype=dtype)
