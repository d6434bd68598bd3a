"""What bounds an engine: which limit its time was spent at."""

import math
from collections.abc import Mapping

from hookline_metrics.saturation.costs import StepCost

COMPUTE, BANDWIDTH = "compute", "memory_bandwidth"
KV_SPACE, SLOTS, BUDGET = "kv_space", "batch_slots", "token_budget"
FRONT_END, CLIENT = "front_end", "client"
BOUNDS = (COMPUTE, BANDWIDTH, KV_SPACE, SLOTS, BUDGET, FRONT_END, CLIENT)
LIVE_BOUNDS = (COMPUTE, BANDWIDTH, KV_SPACE, SLOTS, BUDGET, CLIENT)
"""Limits that are known while an engine runs; recordings also show the front end."""
WINDOW_SECONDS = 10.0
"""Time constant of the shares of a running engine."""
_BY_OBSTACLE = {
    "kv_blocks": KV_SPACE,
    "batch_slots": SLOTS,
    "token_budget": BUDGET,
    "share": BUDGET,
}


class BoundTimes:
    """How long an engine was at each limit.

    A step that leaves requests waiting is bound by what kept them out. One that serves
    all is bound by its device: by compute for the tokens of prompts, and by memory
    bandwidth for the rest, the weights and KV that each step reads. An engine without
    requests is bound by its clients, or by a front end that still prepares some.
    """

    def __init__(self, window_seconds: float | None = WINDOW_SECONDS) -> None:
        """Forgets older times by this time constant; None forgets nothing."""
        self._window = window_seconds
        self.seconds = dict.fromkeys(BOUNDS, 0.0)

    @property
    def name(self) -> str:
        """The limit at which it was longest."""
        return max(self.seconds, key=self.seconds.__getitem__)

    def add_step(
        self, seconds: float, obstacle: str, decodes: int, tokens: int, cost: StepCost
    ) -> None:
        """Adds a step, and what kept others out of it."""
        self._forget(seconds)
        if (bound := _BY_OBSTACLE.get(obstacle)) is not None:
            self.seconds[bound] += seconds
            return
        whole = cost.seconds(decodes, tokens)
        prompts = cost.prefill * tokens / whole if whole > 0 else float(tokens > 0)
        self.seconds[COMPUTE] += seconds * prompts
        self.seconds[BANDWIDTH] += seconds * (1 - prompts)

    def add_idle(self, seconds: float, prepared: float = 0.0) -> None:
        """Adds time without requests, and in how much of it a front end had some."""
        self._forget(seconds)
        self.seconds[FRONT_END] += min(seconds, prepared)
        self.seconds[CLIENT] += seconds - min(seconds, prepared)

    def shares(self) -> Mapping[str, float]:
        """Returns the share of time at each limit; all is the clients' without any."""
        whole = sum(self.seconds.values())
        if whole <= 0:
            return {**dict.fromkeys(BOUNDS, 0.0), CLIENT: 1.0}
        return {bound: seconds / whole for bound, seconds in self.seconds.items()}

    def _forget(self, seconds: float) -> None:
        if self._window is None:
            return
        kept = math.exp(-seconds / self._window)
        for bound in self.seconds:
            self.seconds[bound] *= kept
