"""Steps whose layers are started by one call each, as programs of kernels.

The counterpart of a GPU's graphs. The second step in a row of so many tokens is noted
while it is computed; then it is done again from the notes, over memory without a number
in it, and must come to the same. From then on steps of as many tokens are done from the
notes, whatever sequences they are of. That takes as long as two steps and gains a part
of one each time: a size that does not come twice in a row must have come often. Where
torch computes a part, there is nothing to be done from notes.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from hookline.models.decoder.layer import DecoderLayer, Step
from hookline_kernels.cpu.program import walker
from hookline_kernels.cpu.recording import Arena, Recorder, Recording, recording

_MOST_TOKENS = 512
"""Of more, products are not all kernels of ours."""
_MOST_OF_SEVERAL = 128
"""With several of one sequence: more seldom come again, and starts are less of them."""
_MOST_RECORDINGS = 128
_OFTEN = 2
"""Steps of a number after which more are to be expected."""
_MOST_PAUSE = 4096
"""Steps between two tries to note one, which are doubled after each that fails."""
_TOLERANCE = 0.05


class _Size(NamedTuple):
    """Of steps that one program does.

    Attributes:
        tokens: Of all sequences.
        has_single: There are sequences of one token.
        has_several: There are sequences of several.
    """

    tokens: int
    has_single: bool
    has_several: bool

    @property
    def is_small(self) -> bool:
        most = _MOST_OF_SEVERAL if self.has_several else _MOST_TOKENS
        return 0 < self.tokens <= min(most, _MOST_TOKENS)


@dataclass(slots=True)
class _Tries:
    """When steps are noted, after some could not be.

    Attributes:
        pause: Steps to the next try, if this one fails.
        resting: Steps to this one.
    """

    pause: int = 1
    resting: int = 0

    def fail(self) -> None:
        self.pause = self.resting = min(2 * self.pause, _MOST_PAUSE)


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
    """How a step of a size is done.

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
    """The layers of a decoder, for steps of few tokens."""

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
        self._seen: Counter[_Size] = Counter()
        self._last: _Size | None = None
        # Of steps with sequences of several tokens, and of steps without.
        self._tries = {True: _Tries(), False: _Tries()}
        self._recorded: OrderedDict[_Size, _Recorded] = OrderedDict()
        self._is_off = False

    def __call__(self, hidden: torch.Tensor, step: Step) -> torch.Tensor | None:
        """[T, hidden] → the same, until the next call; None if it is not for this."""
        single, sequences = step.metadata.num_single, len(step.metadata.query_lens)
        size = _Size(len(hidden), single > 0, single < sequences)
        if self._is_off or not size.is_small:
            return None
        found = self._recorded.get(size)
        if found is None or found.angles != _addresses(step):
            tries = self._tries[size.has_several]
            is_due = size == self._last or self._seen[size] >= _OFTEN
            self._last, tries.resting = size, tries.resting - 1
            self._seen[size] += 1
            if not is_due or tries.resting > 0:
                return None
            return self._record(size, hidden, step)
        self._last = size
        self._recorded.move_to_end(size)
        found.inputs.take(hidden, step)
        return found.output if found.recording.run(step.metadata) else None

    def _record(self, size: _Size, hidden: torch.Tensor, step: Step) -> torch.Tensor:
        """Computes a step, and keeps how if that is enough to do it again."""
        inputs = self._inputs.first(len(hidden))
        inputs.take(hidden, step)
        metadata = replace(step.metadata, slots=inputs.slots)
        again = Step(inputs.positions, step.angles, metadata)
        recorder = Recorder(self._arena)
        with recording(recorder):
            output = self._by_calls(inputs.hidden, again)
        expected = output.clone()
        tries = self._tries[size.has_several]
        if recorder.is_refused:
            tries.fail()
            return expected
        tries.pause = 1
        output = self._arena.again(output)
        found = _Recorded(recorder.recording(), inputs, _addresses(step), output)
        self._arena.spoil()
        inputs.take(hidden, step)
        if not found.recording.run(metadata) or not _alike(output, expected):
            self._is_off = True
            # What it wrote to the cache is no better than what it gave.
            return self._by_calls(hidden, step)
        self._recorded[size] = found
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
