"""Replays steps, all of whose layers' kernels are started by one call.

The CPU's counterpart of CUDA graphs. The second consecutive step of a size is recorded
while it is computed; the recording is then replayed over memory filled with NaN, and
must give the same result. From then on steps of this size are replayed, for any
requests; a size whose replay differs never is, and after a few of those none.
Recording takes as long as two steps and each replay saves a part of one: a size that
does not come twice in a row must have come often. A step in which torch computes a part
cannot be recorded.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from hookline_kernels.cpu.recording import Arena, Recorder, Recording, recording
from hookline_kernels.cpu.team import thread_team
from hookline_kernels.metadata import CosSin, Layer, LayerMetadata

_MOST_TOKENS = 512
"""Maximum tokens of a recorded step; larger ones use products of torch."""
_MOST_OF_SEVERAL = 128
"""Most tokens if a request has several: such sizes recur less, and starts cost less."""
_MOST_RECORDINGS = 128
_OFTEN = 2
"""Number of steps of a size after which more are expected."""
_MOST_PAUSE = 4096
"""Most steps between two tries to record; each failure doubles the pause."""
_MOST_DIFFERING = 3
"""Sizes whose replays differ after which the recordings of no size are trusted."""
_TOLERANCE = 0.05
"""Largest norm of a replay's error, relative to that of the result."""
_log = logging.getLogger(__name__)


class _Size(NamedTuple):
    """The kind of steps that one recording replays.

    Attributes:
        tokens: Tokens of all requests.
        has_decodes: Some requests have one token.
        has_several: Some requests have several tokens.
    """

    tokens: int
    has_decodes: bool
    has_several: bool

    @classmethod
    def of(cls, batch: LayerMetadata) -> "_Size":
        decodes = batch.num_decodes
        return cls(len(batch.positions), decodes > 0, decodes < len(batch.query_lens))

    @property
    def is_small(self) -> bool:
        most = _MOST_OF_SEVERAL if self.has_several else _MOST_TOKENS
        return 0 < self.tokens <= most


@dataclass(slots=True)
class _Backoff:
    """Backoff between attempts to record after failures.

    Attributes:
        pause: Number of steps to wait after the next failure.
        remaining: Number of steps left to wait.
    """

    pause: int = 1
    remaining: int = 0

    def fail(self) -> None:
        self.pause = self.remaining = min(2 * self.pause, _MOST_PAUSE)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """A step's inputs, at the addresses that recordings read."""

    hidden: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor

    def first(self, tokens: int) -> "_Inputs":
        return _Inputs(
            self.hidden[:tokens], self.positions[:tokens], self.slots[:tokens]
        )

    def copy_from(self, hidden: torch.Tensor, batch: LayerMetadata) -> None:
        self.hidden.copy_(hidden)
        self.positions.copy_(batch.positions)
        self.slots.copy_(batch.slot_mapping)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A recorded step.

    Attributes:
        recording: Its kernels.
        inputs: Memory of their inputs.
        table: Addresses of the rotary table that they read.
        output: [T, hidden] where they leave the result.
    """

    recording: Recording
    inputs: _Inputs
    table: tuple[int, ...]
    output: torch.Tensor


class RecordedSteps:
    """Records and replays the layers of a decoder, for steps of few tokens.

    Attributes:
        reason: Why steps are not replayed, or not all; empty while nothing is wrong.
    """

    def __init__(self, layers: Sequence[Layer], width: int, dtype: torch.dtype) -> None:
        """Wraps layers that are bound to a cache; `width` is the hidden size.

        Raises:
            KernelError: No compiler is installed.
        """
        thread_team()  # compile it before a request waits for it
        self._layers = layers
        self._arena = Arena()
        self._inputs = _Inputs(
            torch.empty(_MOST_TOKENS, width, dtype=dtype),
            torch.empty(_MOST_TOKENS, dtype=torch.int64),
            torch.empty(_MOST_TOKENS, dtype=torch.int64),
        )
        self._seen: Counter[_Size] = Counter()
        self._last: _Size | None = None
        # Steps with and without requests of several tokens fail apart.
        self._backoffs = {True: _Backoff(), False: _Backoff()}
        self._recorded: OrderedDict[_Size, _Recorded] = OrderedDict()
        self._differing: set[_Size] = set()
        self.reason = ""

    def __call__(
        self, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor | None:
        """Returns [T, hidden], valid until the next call; None without a recording.

        Args:
            hidden: [T, hidden], the first layer's input.
            batch: The step's.
            rotary: The step's.
        """
        size = _Size.of(batch)
        if self._differing and not self._is_trusted(size):
            return None
        if not size.is_small:
            return None
        found = self._recorded.get(size)
        if found is None or found.table != _addresses(rotary):
            backoff = self._backoffs[size.has_several]
            is_due = size == self._last or self._seen[size] >= _OFTEN
            self._last, backoff.remaining = size, backoff.remaining - 1
            self._seen[size] += 1
            if not is_due or backoff.remaining > 0:
                return None
            return self._record(size, hidden, batch, rotary)
        self._last = size
        self._recorded.move_to_end(size)
        found.inputs.copy_from(hidden, batch)
        return found.output if found.recording.run(batch) else None

    def _record(
        self, size: _Size, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor:
        """Computes a step, and keeps the recording if its replay gives the same."""
        inputs = self._inputs.first(len(hidden))
        inputs.copy_from(hidden, batch)
        own = replace(batch, positions=inputs.positions, slot_mapping=inputs.slots)
        recorder = Recorder(self._arena)
        with recording(recorder):
            output = self._run_layers(inputs.hidden, own, rotary)
        expected = output.clone()
        backoff = self._backoffs[size.has_several]
        # With a not-a-number, as for a single request, nothing can be compared.
        if recorder.is_refused or not bool(expected.isfinite().all()):
            backoff.fail()
            return expected
        backoff.pause = 1
        output = self._arena.retain(output)
        found = _Recorded(recorder.recording(), inputs, _addresses(rotary), output)
        self._arena.fill_with_nan()
        inputs.copy_from(hidden, batch)
        if fault := _fault(found.recording.run(own), output, expected):
            self._refuse(size, fault)
            # The replay may have written wrong keys and values: compute the step again.
            return self._run_layers(hidden, batch, rotary)
        self._keep(size, found)
        return expected

    def _keep(self, size: _Size, recorded: _Recorded) -> None:
        """Keeps a recording as the one that was used last."""
        self._recorded[size] = recorded
        self._recorded.move_to_end(size)  # it may replace an older one
        if len(self._recorded) > _MOST_RECORDINGS:
            self._recorded.popitem(last=False)

    def _is_trusted(self, size: _Size) -> bool:
        is_off = len(self._differing) >= _MOST_DIFFERING
        return not is_off and size not in self._differing

    def _refuse(self, size: _Size, fault: str) -> None:
        """Replays a size no more; and no other one if too many had a fault."""
        self._differing.add(size)
        self._recorded.pop(size, None)
        if len(self._differing) < _MOST_DIFFERING:
            sizes = sorted({each.tokens for each in self._differing})
            what = f"steps of {', '.join(map(str, sizes))} tokens"
        else:
            self._recorded.clear()
            what = "steps"
        self.reason = f"{what} are not replayed: one of {size.tokens} tokens {fault}"
        _log.warning(
            "%s; they start each kernel by itself, which is slower", self.reason
        )

    def _run_layers(
        self, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor:
        for layer in self._layers:
            hidden = layer(hidden, batch, rotary)
        return hidden


def _addresses(rotary: CosSin) -> tuple[int, ...]:
    return tuple(side.data_ptr() for side in rotary)


def _fault(is_run: bool, found: torch.Tensor, expected: torch.Tensor) -> str:
    """Returns what is wrong with a replay, in one clause; empty if it is right."""
    if not is_run:
        return "does not fit its own step"
    error = (found.float() - expected.float()).norm() / expected.float().norm()
    if error <= _TOLERANCE:  # never with not-a-numbers
        return ""
    return f"differed by {float(error):.2g} from the step itself"
