"""Notes the kernels that a step starts, so that a program can start them again.

While a thread records, what kernels make lies in memory that stays where it is, and
arguments are copied as they are at each start. What changes from step to step must lie
at the same addresses then; of attention, whose work changes with the lengths of
sequences, `Again` says what is new.
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
from hookline_kernels.metadata import PagedMetadata

Int64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_PIECE_BYTES = 4 << 20
_ALIGNMENT = 64


class Again(Protocol):
    """Attention of some layers that are alike, in every step of a program."""

    def begin(self, calls: Int64, metadata: PagedMetadata) -> int | None:
        """Writes what is new in a step.

        Args:
            calls: [layers, numbers] their arguments.
            metadata: Of the step, with as many tokens as there were.

        Returns:
            Threads that the work is worth; None if it is another kind of step, and
            nothing may be run.
        """
        ...


class Arena:
    """Memory for what lies between kernels, the same for all programs.

    It is handed out as any memory is: what nobody holds any more is taken next, while
    it is in the caches. So a program uses memory again where the noted step did.
    """

    def __init__(self) -> None:
        self._pieces: list[Bytes] = []
        self._used = 0
        self._free: defaultdict[int, list[Bytes]] = defaultdict(list)

    def new(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Contiguous, of any content."""
        size = math.prod(shape) * dtype.itemsize
        # Powers of two, so that programs of many sizes have few rooms.
        free = self._free[max(_ALIGNMENT, 1 << (size - 1).bit_length())]
        room = free.pop() if free else self._more(max(size, 1))
        held = room[:size]  # an object of its own, which the tensor holds
        weakref.finalize(held, free.append, room)
        return _as_tensor(held, shape, dtype)

    def again(self, tensor: torch.Tensor) -> torch.Tensor:
        """The memory of one of its tensors, which may be handed out again."""
        address, size = tensor.data_ptr(), tensor.nbytes
        for piece in self._pieces:
            start = address - piece.ctypes.data
            if 0 <= start < len(piece):
                held = piece[start : start + size]
                return _as_tensor(held, tensor.shape, tensor.dtype)
        raise ValueError("the tensor lies elsewhere")

    def spoil(self) -> None:
        """Has every number in it be none."""
        for piece in self._pieces:
            piece.fill(0xFF)

    def _more(self, size: int) -> Bytes:
        """Room for so many bytes and the same again, up to the next power of two."""
        size = max(_ALIGNMENT, 1 << (size - 1).bit_length())
        if not self._pieces or self._used + size > len(self._pieces[-1]):
            # Not torch's: while a step is noted, what torch does is watched.
            piece = np.empty(max(size, _PIECE_BYTES) + _ALIGNMENT, np.uint8)
            self._pieces.append(piece[-piece.ctypes.data % _ALIGNMENT :])
            self._used = 0
        self._used += size
        return self._pieces[-1][self._used - size : self._used]


def _as_tensor(memory: Bytes, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(memory).view(dtype).view(*shape)


class Recorder:
    """What one thread starts, from `recording` on.

    Attributes:
        is_refused: The step cannot be done again like this.
    """

    def __init__(self, arena: Arena) -> None:
        """Takes memory for what kernels make."""
        self._arena = arena
        self._starts: list[tuple[int, Int64, bool]] = []
        self._attentions: dict[Again, list[int]] = {}
        self.is_refused = False

    def new(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Memory for what a kernel makes."""
        return self._arena.new(shape, dtype)

    def start(self, function: int, numbers: Int64, *, is_alone: bool) -> None:
        """Notes a kernel, whose first number counts what threads took of its work."""
        self._starts.append((function, numbers, is_alone))

    def attend(self, function: int, numbers: Int64, again: Again) -> None:
        """Notes attention, whose first two numbers are of that kind."""
        self._attentions.setdefault(again, []).append(len(self._starts))
        self._starts.append((function, numbers, True))

    def refuse(self) -> None:
        """Says that the step is of a kind that is not done again."""
        self.is_refused = True

    def recording(self) -> "Recording":
        """What was noted."""
        return Recording(self._starts, self._attentions, self._arena)


class Recording:
    """A program and its arguments."""

    def __init__(
        self,
        starts: Sequence[tuple[int, Int64, bool]],
        attentions: dict[Again, list[int]],
        memory: object,
    ) -> None:
        """Takes what a recorder noted, and holds the memory that it is about."""
        self._kept = memory
        width = max((len(numbers) for _, numbers, _ in starts), default=0)
        self._arguments = np.zeros((len(starts), width), np.int64)
        for row, (_, numbers, _) in zip(self._arguments, starts, strict=True):
            row[: len(numbers)] = numbers
        self._attentions = {again: np.array(rows) for again, rows in attentions.items()}
        first, step = self._arguments.ctypes.data, self._arguments.strides[0]
        self._program = Program(
            [
                (function, first + step * row, is_alone)
                for row, (function, _, is_alone) in enumerate(starts)
            ]
        )

    def run(self, metadata: PagedMetadata) -> bool:
        """Starts all of it again; False if it cannot do this step, and did nothing."""
        arguments, entries = self._arguments, self._program.entries
        for again, rows in self._attentions.items():
            calls = arguments[rows]
            threads = again.begin(calls, metadata)
            if threads is None:
                return False
            arguments[rows] = calls
            arguments[rows, 1] = 0
            entries[rows, 2] = threads == 1
        arguments[:, 0] = 0
        self._program.run()
        return True


class _Current(threading.local):
    """The recorder of this thread."""

    recorder: Recorder | None = None


current = _Current()


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Has a recorder note what this thread starts; all of it is computed, too.

    Of what torch computes nothing is noted, so it is refused.
    """
    current.recorder = recorder
    try:
        with _Watch(recorder):
            yield
    finally:
        current.recorder = None


class _Watch(TorchDispatchMode):
    """Lets nothing pass but other looks at the same memory."""

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
        if not getattr(func, "is_view", False) or not _is_look(found, args[0]):
            self._recorder.refuse()
        return found


def _is_look(found: object, at: object) -> bool:
    parts = found if isinstance(found, list | tuple) else [found]
    return isinstance(at, torch.Tensor) and all(
        isinstance(part, torch.Tensor)
        and part.untyped_storage().data_ptr() == at.untyped_storage().data_ptr()
        for part in parts
    )


def fresh(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Contiguous memory of any content for what a kernel makes."""
    if (recorder := current.recorder) is not None:
        return recorder.new(shape, dtype)
    return torch.empty(shape, dtype=dtype)
