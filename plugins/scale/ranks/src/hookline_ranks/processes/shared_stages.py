"""Hidden states on their way from stage to stage, through shared memory.

Each pair of neighbours has memory for the states of a few steps, so that a stage may
run ahead of the next one, and a ring with a message for each step. The reader copies
the states out as soon as it needs them, and counts in the memory's first word how many
it has taken.
"""

import math
import time
from collections.abc import Callable

import msgspec
import torch

from hookline.exceptions import RankError
from hookline_ranks.processes.links import StagePath
from hookline_ranks.processes.ring import RingReader, RingWriter, fence, ring_bytes
from hookline_ranks.processes.shared_memory import SharedMemory
from hookline_ranks.stages.stage_links import NO_FEATURES, PassedFeatures, StageStates

DEADLINE_SECONDS = 600.0
"""How long a stage waits for another. The executor ends all ranks once one has ended;
this ends ranks that wait for different things."""

_LOOK_SECONDS = 1.0
"""How often a stage that waits looks whether its deadline has passed."""
_HEAD = 4096
_FULL_SECONDS = 0.0002
"""Sleep of a stage that is ahead by as many steps as there are slots."""


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    """A step's message: number of tokens, and time of the forward passes so far."""

    num_tokens: int
    forward_ns: int


class _Slots:
    """The memory of a pair of neighbours: hidden states, then features.

    Attributes:
        states: [slots, 1 + features, tokens, width].
        layers: Index of each feature's layer.
    """

    def __init__(
        self,
        descriptor: int,
        sizes: tuple[int, int],
        width: int,
        dtype: torch.dtype,
        layers: tuple[int, ...],
    ) -> None:
        self.layers, (slots, tokens) = layers, sizes
        shape = (slots, 1 + len(layers), tokens, width)
        size = math.prod(shape) * dtype.itemsize
        self._memory = SharedMemory(_HEAD + size, descriptor)
        self._words = self._memory.view[:_HEAD].cast("q")
        flat = torch.frombuffer(self._memory.view[_HEAD:], dtype=torch.uint8)
        self.states = flat.view(dtype).view(shape)

    @property
    def num_taken(self) -> int:
        """Number of steps whose states the reader has taken."""
        fence()
        return self._words[0]

    def pop(self, number: int, sent: _Sent) -> StageStates:
        """Returns a copy of a step's states, and frees their slot."""
        slot = self.states[number % len(self.states), :, : sent.num_tokens]
        hidden, *features = (part.clone() for part in slot)
        fence()
        self._words[0] = number + 1
        by_layer = dict(zip(self.layers, features, strict=True))
        return StageStates(hidden, sent.forward_ns, by_layer)

    def put(self, number: int, states: StageStates) -> None:
        slot = self.states[number % len(self.states)]
        parts = [states.hidden_states, *(states.features[each] for each in self.layers)]
        for place, part in zip(slot, parts, strict=True):
            place[: len(part)].copy_(part)
        fence()


class SharedStages:
    """A rank's `StageLinks` to ranks of the same machine.

    Attributes:
        has_before: Whether there is a stage before this rank's.
        has_after: Whether there is a stage after it.
        forward_ns: Time of the forward passes of the stages before, ns.
    """

    def __init__(
        self,
        before: StagePath | None,
        after: StagePath | None,
        *,
        rank: int,
        num_slots: int,
        max_tokens: int,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Attaches to the rings.

        Args:
            before: Path from the stage before; None for the first stage.
            after: Path to the next stage; None for the last one.
            rank: Index of the rank, for errors.
            num_slots: Number of steps by which a stage may be ahead.
            max_tokens: Largest number of tokens of a step.
            deadline_seconds: How long a stage waits for another.
        """
        self.has_before, self.has_after = before is not None, after is not None
        self.forward_ns = 0
        self._before, self._after = before, after
        self._rank, self._deadline = rank, deadline_seconds
        self._sizes = (num_slots, max_tokens)
        self._received = self._sent = 0
        self._slots: tuple[_Slots | None, _Slots | None] | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(_Sent)
        if before is not None:
            memory = SharedMemory(ring_bytes(1), before.ring)
            self._reader = RingReader(memory, before.bell)
        if after is not None:
            memory = SharedMemory(ring_bytes(1), after.ring)
            self._writer = RingWriter(memory, [after.bell])

    def open(
        self,
        width: int,
        dtype: torch.dtype,
        features: PassedFeatures = NO_FEATURES,
    ) -> None:
        """Implements `StageLinks`; memory that is mapped already is kept."""
        if self._slots is None:
            before, after = (
                None
                if path is None
                else _Slots(path.states, self._sizes, width, dtype, layers)
                for path, layers in zip(
                    (self._before, self._after), features, strict=True
                )
            )
            self._slots = before, after

    def receive(self) -> StageStates:
        """Implements `StageLinks`."""
        assert self._slots is not None, "open comes first"
        slots, _ = self._slots
        assert slots is not None
        check = self._until("the stage before sends nothing")
        wait = min(_LOOK_SECONDS, self._deadline)
        while (message := self._reader.read(wait)) is None:
            check()
        sent = self._decoder.decode(message)
        states = slots.pop(self._received, sent)
        self._received += 1
        self.forward_ns = sent.forward_ns
        return states

    def send(self, states: StageStates) -> None:
        """Implements `StageLinks`."""
        assert self._slots is not None, "open comes first"
        _, slots = self._slots
        assert slots is not None
        check = self._until("the next stage takes nothing")
        while self._sent - slots.num_taken >= len(slots.states):
            check()
            time.sleep(_FULL_SECONDS)
        slots.put(self._sent, states)
        self._sent += 1
        sent = _Sent(len(states.hidden_states), states.forward_ns)
        self._writer.write(self._encoder.encode(sent), check)

    def _until(self, reason: str) -> Callable[[], None]:
        """Returns a check that raises once the deadline has passed."""
        end = time.monotonic() + self._deadline

        def check() -> None:
            if time.monotonic() > end:
                raise RankError(self._rank, reason)

        return check
