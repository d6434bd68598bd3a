"""What bounds an engine: which limit its time was spent at."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from hookline.clock import NANOSECONDS
from hookline.stats.iteration_stats import FirstToken
from hookline_metrics.saturation.costs import StepCost

COMPUTE, BANDWIDTH = "compute", "memory_bandwidth"
KV_SPACE, SLOTS, BUDGET = "kv_space", "batch_slots", "token_budget"
FRONT_END, CLIENT = "front_end", "client"
BOUNDS = (COMPUTE, BANDWIDTH, KV_SPACE, SLOTS, BUDGET, FRONT_END, CLIENT)
WINDOW_SECONDS = 10.0
"""Time constant of the shares of a running engine."""
_SLICE_SECONDS = 0.5
"""Steps of so long are divided together; nothing is forgotten within them."""
_BY_OBSTACLE = {
    "kv_blocks": KV_SPACE,
    "batch_slots": SLOTS,
    "token_budget": BUDGET,
    "share": BUDGET,
}


class Costs(Protocol):
    """Fitted costs of steps."""

    @property
    def cost(self) -> StepCost:
        """The most recent fit."""
        ...


class BoundTimes:
    """How long an engine was at each limit.

    A step that leaves requests waiting is bound by what kept them out. One that serves
    all is bound by its device: by compute for the tokens of prompts, and by memory
    bandwidth for the rest, the weights and KV that each step reads. An engine without
    requests is bound by its clients, or by a front end that still prepares some.
    """

    def __init__(
        self, costs: Costs, window_seconds: float | None = WINDOW_SECONDS
    ) -> None:
        """Forgets older times by this time constant; None forgets nothing."""
        self._costs, self._window = costs, window_seconds
        self._slice = 0.0 if window_seconds is None else _SLICE_SECONDS
        self._past = dict.fromkeys(BOUNDS, 0.0)
        self._woke: tuple[int, float] | None = None
        self._clear()

    def _clear(self) -> None:
        """Begins a slice."""
        self._slice_seconds = self._free_seconds = 0.0
        self._steps = self._decodes = self._tokens = 0
        self._held: dict[str, float] = {}

    @property
    def seconds(self) -> Mapping[str, float]:
        """How long it was at each limit, as far as that is not forgotten."""
        self._settle()
        return self._past

    @property
    def name(self) -> str:
        """The limit at which it was longest."""
        seconds = self.seconds
        return max(seconds, key=seconds.__getitem__)

    def add_step(
        self, seconds: float, obstacle: str, decodes: int, tokens: int
    ) -> None:
        """Adds a step, and what kept others out of it; cheap."""
        if (bound := _BY_OBSTACLE.get(obstacle)) is not None:
            self._held[bound] = self._held.get(bound, 0.0) + seconds
        else:
            self._free_seconds += seconds
            self._steps += 1
            self._decodes += decodes
            self._tokens += tokens
        self._slice_seconds += seconds
        if self._slice_seconds > self._slice:
            self._settle()

    def add_idle(self, seconds: float, prepared: float = 0.0) -> None:
        """Adds time without requests, and in how much of it a front end had some."""
        self._settle()
        weight = self._weigh(seconds)
        self._past[CLIENT] += weight
        self._move(min(seconds, prepared))

    def wake(self, at: int, idle_seconds: float) -> None:
        """Adds time without requests until a step that began at `at`, ns."""
        self.add_idle(idle_seconds)
        self._woke = at, idle_seconds

    def first_tokens(self, tokens: Sequence[FirstToken], at: int) -> None:
        """Takes the first tokens of a step that ended at `at`, ns.

        The first one after idle time shows for how much of that time the front end had
        the request already: time to first token minus the time since the step began.
        """
        if self._woke is None or not tokens:
            return
        since, idle = self._woke
        self._woke = None
        longest = max(each.seconds for each in tokens)
        prepared = longest - (at - since) / NANOSECONDS
        self._settle()
        self._move(max(0.0, min(prepared, idle)))

    def shares(self) -> Mapping[str, float]:
        """Returns the share of time at each limit; all is the clients' without any."""
        seconds = self.seconds
        whole = sum(seconds.values())
        if whole <= 0:
            return {**dict.fromkeys(BOUNDS, 0.0), CLIENT: 1.0}
        return {bound: each / whole for bound, each in seconds.items()}

    def _settle(self) -> None:
        """Ends a slice: divides its steps by the present costs."""
        if not self._slice_seconds:
            return
        scale = self._weigh(self._slice_seconds) / self._slice_seconds
        for bound, seconds in self._held.items():
            self._past[bound] += scale * seconds
        cost, tokens = self._costs.cost, self._tokens
        prompts = cost.prefill * tokens
        whole = cost.fixed * self._steps + cost.decode * self._decodes + prompts
        share = prompts / whole if whole > 0 else float(tokens > 0)
        self._past[COMPUTE] += scale * self._free_seconds * share
        self._past[BANDWIDTH] += scale * self._free_seconds * (1 - share)
        self._clear()

    def _weigh(self, seconds: float) -> float:
        """Forgets older times by time that passes; returns what remains of that."""
        if self._window is None:
            return seconds
        kept = math.exp(-seconds / self._window)
        for bound in self._past:
            self._past[bound] *= kept
        return self._window * (1 - kept)

    def _move(self, seconds: float) -> None:
        """Makes the clients' last seconds the front end's."""
        if self._window is not None:
            seconds = self._window * (1 - math.exp(-seconds / self._window))
        moved = min(seconds, self._past[CLIENT])
        self._past[CLIENT] -= moved
        self._past[FRONT_END] += moved
