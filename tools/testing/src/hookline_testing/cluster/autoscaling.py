"""A simulated cluster whose engines come and go with the load."""

from dataclasses import dataclass

import numpy as np

from hookline.clock import NANOSECONDS
from hookline.config import EngineConfig, ObserverConfig
from hookline.frontend.engine_set import EngineState
from hookline.payloads import EngineStarted
from hookline_cluster.scaling.policy import Scaler, ScalingDecision, ScalingPolicy
from hookline_metrics import Recorder
from hookline_testing.cluster.cluster import Cluster
from hookline_testing.cluster.events import Events
from hookline_testing.cluster.spec import ClusterSpec
from hookline_testing.cluster.tally import Result
from hookline_testing.cluster.traffic import Traffic

DECIDE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The cluster at the time of a decision.

    Attributes:
        at: Seconds from the start.
        serving: Engines that get requests.
        starting: Engines that are being started.
        draining: Engines that finish what they have.
        saturation: Sum of the serving engines' saturation.
        ended: Requests that ended since the moment before.
        ttft_p99: 99th percentile of their times to the first token; 0 without any.
        decision: What was decided.
    """

    at: float
    serving: int
    starting: int
    draining: int
    saturation: float
    ended: int
    ttft_p99: float
    decision: ScalingDecision


class ScaledCluster:
    """Starts and drains engines as a policy says; saturation is the product's metric.

    There are always as many engines as the policy allows at most. Those that have not
    been started, or have ended, get no requests. One that starts has an empty cache.

    Attributes:
        moments: One for each decision.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        traffic: Traffic,
        policy: ScalingPolicy,
        *,
        startup_seconds: float,
    ) -> None:
        self.moments: list[Moment] = []
        self._events = Events()
        config = EngineConfig(observers=ObserverConfig(stat_loggers=()))
        self._recorder = Recorder(config, clock=self._events.clock)
        self._cluster = Cluster(
            spec, traffic, events=self._events, recorder=self._recorder
        )
        self._startup_seconds = startup_seconds
        self._scaler = Scaler(policy)
        [front_end] = self._cluster.front_ends
        self._front_end = front_end.front_end
        self._engines = list(self._front_end.engines)
        self._serving = self._engines[: policy.minimum]
        self._starting: list[EngineState] = []
        self._draining: list[EngineState] = []
        self._counted = 0
        for engine in self._engines[policy.minimum :]:
            engine.is_leaving = True

    def serve(self, requests: int) -> Result:
        """Serves so many requests to their ends; returns what was measured."""
        self._events.after(DECIDE_SECONDS, self._decide)
        return self._cluster.serve(requests)

    def _decide(self) -> None:
        self._draining = [each for each in self._draining if self._is_busy(each)]
        saturations = self._saturations()
        now = self._events.clock.now() / NANOSECONDS
        staying = len(self._serving) + len(self._starting)
        decision = self._scaler.decide(now, saturations, staying)
        self._note(now, sum(saturations), decision)
        for _ in range(decision.engines - staying):
            self._grow()
        for _ in range(staying - decision.engines):
            self._shrink()
        self._events.after(DECIDE_SECONDS, self._decide)

    def _grow(self) -> None:
        """Keeps an engine that was to end, if there is one, or starts another."""
        if self._draining:
            self._take(self._draining.pop())
            return
        taken = [*self._serving, *self._starting]
        engine = next(each for each in self._engines if each not in taken)
        self._starting.append(engine)
        self._events.after(self._startup_seconds, lambda: self._started(engine))

    def _started(self, engine: EngineState) -> None:
        if engine in self._starting:
            self._starting.remove(engine)
            info = self._cluster.replace_engine(engine.index)
            engine.replaced(info)
            self._front_end.router.cache_lost(engine.index)
            started = EngineStarted(facts=info.facts, clock=info.clock)
            self._recorder.engine_started(started)
            self._take(engine)

    def _take(self, engine: EngineState) -> None:
        engine.is_leaving = False
        self._serving.append(engine)

    def _shrink(self) -> None:
        """Gives up an engine that has not started, or lets the idlest one drain."""
        if self._starting:
            self._starting.pop()
            return
        engine = min(self._serving, key=lambda each: each.load)
        engine.is_leaving = True
        self._serving.remove(engine)
        self._draining.append(engine)

    @staticmethod
    def _is_busy(engine: EngineState) -> bool:
        return engine.accounting.num_in_flight > 0

    def _saturations(self) -> list[float]:
        """Reads what `/metrics` would show of the serving engines."""
        [family] = [
            each
            for each in self._recorder.snapshot()
            if each.name == "hookline_saturation_ratio"
        ]
        place = family.label_names.index("engine")
        values = {
            sample.labels[place]: sample.value
            for sample in family.samples
            if isinstance(sample.value, float)
        }
        return [values[str(each.index)] for each in self._serving]

    def _note(self, now: float, saturation: float, decision: ScalingDecision) -> None:
        ttft = self._cluster.tally.ttft[self._counted :]
        self._counted += len(ttft)
        self.moments.append(
            Moment(
                at=now,
                serving=len(self._serving),
                starting=len(self._starting),
                draining=len(self._draining),
                saturation=saturation,
                ended=len(ttft),
                ttft_p99=float(np.percentile(ttft, 99)) if ttft else 0.0,
                decision=decision,
            )
        )
