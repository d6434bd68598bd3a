"""Hidden states on their way from stage to stage, over gloo."""

from collections import deque

import torch
from torch._C._distributed_c10d import ProcessGroup, Work

from hookline_ranks.processes.gloo import meeting
from hookline_ranks.stages.stage_links import NO_FEATURES, PassedFeatures, StageStates

_HEAD, _STATES = 1, 2
"""Tags of a step's two messages: number of tokens and time, then states."""


class GlooStages:
    """A rank's `StageLinks` to ranks of other machines.

    Each step is two messages. They wait at the sender until the next stage asks for
    them, in as much memory as the states of a few steps take.

    Attributes:
        has_before: Whether there is a stage before this rank's.
        has_after: Whether there is a stage after it.
        forward_ns: Time of the forward passes of the stages before, ns.
    """

    def __init__(self, group: ProcessGroup, *, stride: int, num_slots: int) -> None:
        """Wraps a process group.

        Args:
            group: All ranks of the engine.
            stride: Distance of a rank to its neighbours in the stages before and after.
            num_slots: Number of steps by which a stage may be ahead.
        """
        self._group, self._rank = group, group.rank()
        self._before, self._after = self._rank - stride, self._rank + stride
        self.has_before = self._before >= 0
        self.has_after = self._after < group.size()
        self.forward_ns = 0
        self._num_slots = num_slots
        self._sending: deque[tuple[Work, Work]] = deque()
        self._width, self._dtype = 0, torch.float32
        self._features = NO_FEATURES

    def open(
        self,
        width: int,
        dtype: torch.dtype,
        features: PassedFeatures = NO_FEATURES,
    ) -> None:
        """Implements `StageLinks`."""
        self._width, self._dtype, self._features = width, dtype, features

    def receive(self) -> StageStates:
        """Implements `StageLinks`."""
        head = torch.empty(2, dtype=torch.int64)
        with meeting(self._rank):
            self._group.recv([head], self._before, _HEAD).wait()
        num_tokens, self.forward_ns = head.tolist()
        layers = self._features.before
        states = torch.empty(
            1 + len(layers), num_tokens, self._width, dtype=self._dtype
        )
        with meeting(self._rank):
            self._group.recv([states], self._before, _STATES).wait()
        hidden, *features = states
        by_layer = dict(zip(layers, features, strict=True))
        return StageStates(hidden, self.forward_ns, by_layer)

    def send(self, states: StageStates) -> None:
        """Implements `StageLinks`."""
        layers = self._features.after
        parts = [states.hidden_states, *(states.features[each] for each in layers)]
        head = torch.tensor([len(states.hidden_states), states.forward_ns])
        with meeting(self._rank):
            while len(self._sending) >= self._num_slots:
                for work in self._sending.popleft():
                    work.wait()
            self._sending.append(
                (
                    self._group.send([head], self._after, _HEAD),
                    self._group.send([torch.stack(parts)], self._after, _STATES),
                )
            )
