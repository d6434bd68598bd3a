"""Decode steps whose layers are started by one call each, as programs of kernels.

The counterpart of a GPU's graphs. The second step in a row of so many sequences is
noted while it is computed; then it is done again from the notes, over memory without a
number in it, and must come to the same. From then on steps of as many sequences are
done from the notes. That takes as long as two steps and gains a part of one each time:
a number that does not come twice in a row must have come often. Where torch computes a
part, there is nothing to be done from notes.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hookline.models.decoder.layer import DecoderLayer, Step
from hookline_kernels.cpu.program import walker
from hookline_kernels.cpu.recording import Arena, Recorder, Recording, recording

_MOST_TOKENS = 512
"""Of more, products are not all kernels of ours."""
_MOST_RECORDINGS = 128
_OFTEN = 2
"""Steps of a number after which more are to be expected."""
_MOST_PAUSE = 4096
"""Steps between two tries to note one, which are doubled after each that fails."""
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Of a step, where its program looks for them."""

    hidden: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor

    def first(self, tokens: int) -> "_Inputs":
        return _Inputs(
            self.hidden[:tokens], self.positions[:tokens], self.slots[:tokens]
        )

    def take(self, hidden: torch.Tensor, step: Step) -> None:
        self.hidden.copy_(hidden)
        self.positions.copy_(step.positions)
        self.slots.copy_(step.metadata.slots)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """How a step of so many sequences is done.

    Attributes:
        recording: Its kernels.
        inputs: What they read.
        angles: Addresses of the table that they read.
        output: What they make.
    """

    recording: Recording
    inputs: _Inputs
    angles: tuple[int, ...]
    output: torch.Tensor


class LayersAgain:
    """The layers of a decoder, for steps of one token a sequence."""

    def __init__(
        self, layers: Sequence[DecoderLayer], width: int, dtype: torch.dtype
    ) -> None:
        """Takes layers that are bound to a cache; `width` is that of hidden states.

        Raises:
            KernelError: There is no compiler.
        """
        walker()  # compiled, or read from disk, before a request waits for it
        self._layers = layers
        self._arena = Arena()
        self._inputs = _Inputs(
            torch.empty(_MOST_TOKENS, width, dtype=dtype),
            torch.empty(_MOST_TOKENS, dtype=torch.int64),
            torch.empty(_MOST_TOKENS, dtype=torch.int64),
        )
        self._seen: Counter[int] = Counter()
        self._last = 0
        self._pause, self._resting = 1, 0
        self._recorded: OrderedDict[int, _Recorded] = OrderedDict()
        self._is_off = False

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor | None:
        """[T, hidden] → the same, until the next call; None if it is not for this."""
        tokens = len(hidden)
        if self._is_off or not 0 < step.metadata.num_single == tokens <= _MOST_TOKENS:
            return None
        found = self._recorded.get(tokens)
        if found is None or found.angles != _addresses(step):
            is_due = tokens == self._last or self._seen[tokens] >= _OFTEN
            self._last, self._resting = tokens, self._resting - 1
            self._seen[tokens] += 1
            return self._record(hidden, step) if is_due and self._resting <= 0 else None
        self._last = tokens
        self._recorded.move_to_end(tokens)
        found.inputs.take(hidden, step)
        return found.output if found.recording.run(step.metadata) else None

    def _record(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        """Computes a step, and keeps how if that is enough to do it again."""
        inputs = self._inputs.first(len(hidden))
        inputs.take(hidden, step)
        metadata = replace(step.metadata, slots=inputs.slots)
        again = Step(inputs.positions, step.angles, metadata)
        recorder = Recorder(self._arena)
        with recording(recorder):
            output = self._by_calls(inputs.hidden, again)
        expected = output.clone()
        if recorder.is_refused:
            self._pause = min(2 * self._pause, _MOST_PAUSE)
            self._resting = self._pause
            return expected
        self._pause = 1
        output = self._arena.again(output)
        found = _Recorded(recorder.recording(), inputs, _addresses(step), output)
        self._arena.spoil()
        inputs.take(hidden, step)
        if not found.recording.run(metadata) or not _alike(output, expected):
            self._is_off = True
            # What it wrote to the cache is no better than what it gave.
            return self._by_calls(hidden, step)
        self._recorded[len(hidden)] = found
        if len(self._recorded) > _MOST_RECORDINGS:
            self._recorded.popitem(last=False)
        return expected

    def _by_calls(self, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        for layer in self._layers:
            hidden = layer(hidden, step)
        return hidden


def _addresses(step: Step) -> tuple[int, ...]:
    return tuple(side.data_ptr() for side in step.angles)


def _alike(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Nearly the same numbers, and all of them numbers."""
    error = (found.float() - expected.float()).norm() / expected.float().norm()
    return bool(error <= _TOLERANCE)
