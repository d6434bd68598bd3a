"""The saturation signal: an engine's load relative to its capacity, as one number.

Below 1 the engine keeps up with arriving requests, above 1 they queue up.
`docs/saturation.md` has the formulas.
"""

import math
from collections.abc import Mapping

from hookline.clock import NANOSECONDS
from hookline.payloads import EngineFacts, StateChanged, StepFinished
from hookline.request import Slo
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.saturation.arrivals import Arrivals
from hookline_metrics.saturation.bound import BoundTimes
from hookline_metrics.saturation.capacity import (
    CAPACITY,
    INTER_TOKEN,
    STABLE,
    TTFT,
    WITHIN_SLO,
    BusySteps,
    CapacityReading,
)
from hookline_metrics.saturation.costs import StepCosts
from hookline_metrics.saturation.demand import Demand, MeanRequest, OthersWork
from hookline_metrics.saturation.forecast import EVERY_SECONDS, Forecast

PARTS = ("load", "kv", "growth", "backlog")
MOST = 10.0
HORIZON_SECONDS = 15.0
"""A backlog that takes this long to work off counts as 1."""
IDLE_SECONDS = 3.0
"""Time constant of the decay while the engine is idle."""
_SLICE_SECONDS = 0.1
_NOTHING = 0.005
_LEAST_REQUESTS = 2.0
"""Recent requests without which nothing is said of capacity."""


class Saturation:
    """The signal of one engine, on the engine's clock; not thread-safe.

    `step` and `state` only accumulate; `value` and `parts` compute the estimates.
    """

    def __init__(self, facts: EngineFacts) -> None:
        self._facts = facts
        self._reset()

    def _reset(self) -> None:
        self._costs = StepCosts()
        self._bound = BoundTimes(self._costs)
        self._demand = Demand()
        self._arrivals = Arrivals()
        self._forecast = Forecast()
        self._slo: Slo | None = None
        self._scheduler = SchedulerStats()
        self._now: int | None = None
        self._idle_since: int | None = None
        self._last_step = 0
        self._not_aged = 0.0
        self._forecast_at = 0

    def step(self, step: StepFinished) -> None:
        """Adds a step."""
        record, work = step.record, step.record.work
        seconds = self._seconds_of_step(record.step, record.started_at, record.ended_at)
        self._age(seconds)
        self._costs.add(work.decode_requests, work.prefill_tokens, seconds)
        if self._idle_since is not None:
            idle = record.started_at - self._idle_since
            self._bound.wake(record.started_at, max(0, idle) / NANOSECONDS)
        self._bound.add_step(
            seconds, work.obstacle, work.decode_requests, work.prefill_tokens
        )
        if step.iteration.first_tokens:
            self._bound.first_tokens(step.iteration.first_tokens, record.ended_at)
        self._demand.add(record, step.iteration, step.scheduler)
        self._last_step = record.step
        self._idle_since = None  # it was busy until now, even if nothing is left
        self._take(step.scheduler, record.ended_at, step.iteration)

    def state(self, state: StateChanged) -> None:
        """Adds a state between steps; the end of the engine resets the signal."""
        if state.cause in {"failed", "drain"}:
            self._reset()
            return
        self._demand.add_requests(state.iteration)
        self._take(state.scheduler, state.at, state.iteration)

    def others(self, work: OthersWork) -> None:
        """Adds requests that other front ends account for, with their output."""
        self._demand.add_others(work)

    def value(self, at: int | None = None) -> float:
        """Returns the saturation, 0 to `MOST`; `at` only matters for an idle engine."""
        parts = self._parts(at)
        total = max(parts["load"] + parts["kv"], parts["growth"]) + parts["backlog"]
        return min(total, MOST) if total >= _NOTHING else 0.0

    def parts(self, at: int | None = None) -> Mapping[str, float]:
        """Returns the components of the value: max(load + kv, growth) + backlog."""
        return self._parts(at)

    def bounds(self) -> Mapping[str, float]:
        """Returns the share of the last seconds in which each limit bound the engine.

        An engine that is idle now is bound by its clients alone.
        """
        is_idle = self._idle_since is not None
        return (BoundTimes(self._costs) if is_idle else self._bound).shares()

    def capacity(self) -> CapacityReading:
        """Returns what the engine can serve and how fast, once costs are fitted."""
        self._costs.fit()
        steps = self._busy_steps()
        if not self._costs.is_fitted or steps.request.counted < _LEAST_REQUESTS:
            return CapacityReading()
        found = {
            CAPACITY: steps.capacity(),
            STABLE: steps.stability(),
            TTFT: self._forecast.ttft(self._ttft(steps)),
        }
        if self._slo is not None and (within := steps.within(self._slo)) is not None:
            found[WITHIN_SLO] = within
        if (seconds := _inter_token(steps, self._scheduler)) is not None:
            found[INTER_TOKEN] = self._forecast.inter_token(seconds)
        return CapacityReading(found)

    def _busy_steps(self) -> BusySteps:
        request = self._demand.mean()
        places = self._batch(request)
        return BusySteps(
            self._costs,
            request,
            places,
            places < self._facts.max_num_seqs,
            max(1, self._facts.max_num_batched_tokens),
        )

    def _ttft(self, steps: BusySteps) -> float:
        """Returns the time to first token of a request that comes now."""
        scheduler, request = self._scheduler, steps.request
        running = min(float(scheduler.running), steps.stable)
        seconds = steps.prefill_seconds(running)
        if running:  # on average it comes in the middle of a step
            seconds += steps.seconds(running) / 2
        if scheduler.waiting or scheduler.running >= steps.places:
            each = self._seconds_of(request)
            seconds += each + self._backlog(request, each) * HORIZON_SECONDS
        return seconds

    def _seconds_of_step(self, number: int, started_at: int, ended_at: int) -> float:
        """Returns a step's duration.

        Includes the time since the step before if the engine was busy. The overlap of
        two steps counts for the first.
        """
        is_next = number == self._last_step + 1 and self._idle_since is None
        if self._now is not None:
            started_at = self._now if is_next else max(started_at, self._now)
        return max(0, ended_at - started_at) / NANOSECONDS

    def _age(self, seconds: float) -> None:
        """Decays the estimates by busy time."""
        self._not_aged += seconds
        if self._not_aged >= _SLICE_SECONDS:
            self._costs.fit()
            self._costs.age(self._not_aged)
            self._demand.age(self._not_aged)
            self._forecast.age(self._not_aged)
            self._not_aged = 0.0

    def _take(
        self, scheduler: SchedulerStats, at: int, iteration: IterationStats
    ) -> None:
        passed = 0 if self._now is None else max(0, at - self._now)
        self._arrivals.add(scheduler, passed / NANOSECONDS)
        self._now = at if self._now is None else max(self._now, at)
        self._scheduler = scheduler
        if scheduler.running or scheduler.waiting:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = self._now
        for ended in iteration.finished:
            self._slo = ended.facts.slo or self._slo
        if iteration.first_tokens or iteration.inter_token_seconds:
            self._forecast.compare(self._now, iteration)
        if self._now >= self._forecast_at:
            self._predict(self._now)

    def _predict(self, at: int) -> None:
        """Predicts the latencies, to be compared with what comes."""
        self._forecast_at = at + round(EVERY_SECONDS * NANOSECONDS)
        if self._costs.is_fitted:
            steps = self._busy_steps()
            inter_token = _inter_token(steps, self._scheduler)
            self._forecast.predict(at, self._ttft(steps), inter_token)

    def _parts(self, at: int | None) -> dict[str, float]:
        self._costs.fit()
        request = self._demand.mean()
        present = self._presence(at)
        alone = self._seconds_of(request._replace(recomputed=0.0, blocks=0.0))
        seconds = self._seconds_of(request)
        rate = self._arrivals.rate * present
        return {
            "load": min(rate * alone, MOST),
            "kv": min(rate * max(0.0, seconds - alone), MOST),
            "growth": min(self._arrivals.growth * present, MOST),
            "backlog": min(self._backlog(request, seconds) * present, MOST),
        }

    def _presence(self, at: int | None) -> float:
        """Returns 1 while the engine has work; decays towards 0 while it is idle."""
        if self._now is None:
            return 0.0
        if self._idle_since is None:
            return 1.0
        idle = max(at or 0, self._now) - self._idle_since
        return math.exp(-idle / NANOSECONDS / IDLE_SECONDS)

    def _seconds_of(self, request: MeanRequest) -> float:
        """Returns the seconds of a full engine that a request takes."""
        cost, tokens = self._costs.cost, request.prompt + request.recomputed
        return (
            cost.prefill * tokens
            + cost.decode * request.decodes
            + cost.fixed * self._steps_of(request)
        )

    def _steps_of(self, request: MeanRequest) -> float:
        """Returns the number of full steps that one request fills."""
        budget = max(1, self._facts.max_num_batched_tokens)
        tokens = request.prompt + request.recomputed + request.decodes
        return max(request.passes / self._batch(request), tokens / budget)

    def _batch(self, request: MeanRequest) -> float:
        """Returns the maximum running requests, by the limit and by the KV cache."""
        limit = float(max(1, self._facts.max_num_seqs))
        if request.blocks > 0 and self._facts.model.num_kv_blocks:
            limit = min(limit, self._facts.model.num_kv_blocks / request.blocks)
        return max(1.0, limit)

    def _backlog(self, request: MeanRequest, seconds: float) -> float:
        """Returns the time to work off the queue, in units of `HORIZON_SECONDS`."""
        if not self._scheduler.waiting:
            return 0.0
        drain = self._scheduler.waiting * seconds
        if known := self._scheduler.waiting_tokens:
            mean = request.prompt + request.recomputed
            drain += self._costs.cost.prefill * (
                known * request.fresh - self._scheduler.waiting * mean
            )
        return max(0.0, drain) / HORIZON_SECONDS


def _inter_token(steps: BusySteps, scheduler: SchedulerStats) -> float | None:
    """Returns the time between two tokens at the present load, of at least a request.

    None if requests do not decode.
    """
    if steps.request.decodes <= 0:
        return None
    running = max(1.0, min(float(scheduler.running), steps.stable))
    return steps.seconds(running) / steps.request.yields
