"""Chooses the number of engines by the load, again and again."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from hookline.clock import NANOSECONDS, Clock
from hookline.engine_setup.failure import FailureBarrier
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.scaling.policy import Scaler, ScalingPolicy, ScalingReason
from hookline_cluster.scaling.scaling import Scaling

DECIDE_SECONDS = 2.0
"""Time between two decisions."""
FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 300.0
MEMORY_SECONDS = 1200.0
"""Time for which a failure counts."""
_MOST_FAILURES = 32
_log = logging.getLogger(__name__)


class Backoff:
    """The pause before another engine is started, after starts that failed.

    It doubles with each failure, and a failure counts for twenty minutes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: deque[int] = deque(maxlen=_MOST_FAILURES)

    def fail(self) -> None:
        """Counts a failure."""
        self._failures.append(self._clock.now())

    @property
    def is_over(self) -> bool:
        """Whether an engine may be started."""
        now = self._clock.now()
        while self._failures and now - self._failures[0] > _ns(MEMORY_SECONDS):
            self._failures.popleft()
        if not self._failures:
            return True
        delay = FIRST_DELAY_SECONDS * 2.0 ** (len(self._failures) - 1)
        return now - self._failures[-1] >= _ns(min(delay, LONGEST_DELAY_SECONDS))


class Autoscaler:
    """Brings the engines to the number that a policy chooses; on the event loop.

    It leaves the number alone while engines sleep, and starts none for a while after
    one could not be started, or has died.
    """

    def __init__(
        self,
        scaling: Scaling,
        engines: EngineSet,
        saturation_of: Callable[[int], float],
        policy: ScalingPolicy,
        clock: Clock,
    ) -> None:
        """Begins with no measurements.

        Args:
            scaling: Changes the number.
            engines: The engines.
            saturation_of: Returns `hookline_saturation_ratio` of an engine.
            policy: Limits and pace.
            clock: The front end's clock.
        """
        self._scaling = scaling
        self._engines = engines
        self._saturation_of = saturation_of
        self._scaler = Scaler(policy)
        self._clock = clock
        self._backoff = Backoff(clock)
        self._failed_starts = 0
        self._dead: set[EngineState] = set()
        self._is_waiting = False

    async def run(self, interval_seconds: float = DECIDE_SECONDS) -> None:
        """Decides until the server ends."""
        while not self._scaling.is_stopped:
            await asyncio.sleep(interval_seconds)
            with FailureBarrier(_tell_failure):
                self.decide()

    def decide(self) -> None:
        """Decides once."""
        if self._scaling.is_stopped or any(e.is_asleep for e in self._engines.running):
            return
        self._scaling.give_up_late()
        self._take_failures()
        if (seconds := self._scaling.last_start_seconds) is not None:
            self._scaler.expect_start(seconds)
        state = self._scaling.state
        saturations = [self._saturation_of(index) for index in state.serving]
        now = self._clock.now() / NANOSECONDS
        engines, reason = self._scaler.decide(now, saturations, state.staying)
        if engines > state.staying and not self._backoff.is_over:
            self._put_off(engines, reason)
            return
        self._is_waiting = False
        if engines != state.staying:
            shown = ", ".join(f"{each:.2f}" for each in saturations)
            _log.info("saturation of the engines: %s", shown)
        self._scaling.want(engines, reason.value)

    def _take_failures(self) -> None:
        ended = [each for each in self._engines if each.failure is not None]
        dead = {each for each in ended if not each.is_surplus}
        failed = self._scaling.stats.failed
        for _ in range(len(dead - self._dead) + failed - self._failed_starts):
            self._backoff.fail()
        self._dead, self._failed_starts = dead, failed

    def _put_off(self, engines: int, reason: ScalingReason) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            _log.warning(
                "%d engines are wanted (%s); none is started for a while, because one "
                "could not be started or has died",
                engines,
                reason.value,
            )


def _tell_failure(reason: str) -> None:
    _log.error("the autoscaler could not choose the number of engines: %s", reason)


def start_autoscaling(
    scaling: Scaling,
    engines: EngineSet,
    saturation_of: Callable[[int], float],
    config: ClusterConfig,
    clock: Clock,
) -> None:
    """Starts a task that decides, which ends with `scaling`, if that is configured."""
    if (policy := policy_of(config)) is None:
        return
    autoscaler = Autoscaler(scaling, engines, saturation_of, policy, clock)
    scaling.adopt(asyncio.create_task(autoscaler.run()))


def policy_of(config: ClusterConfig) -> ScalingPolicy | None:
    """Returns the configured policy; None if the number of engines does not change."""
    if (limits := config.autoscale) is None:
        return None
    return ScalingPolicy(
        minimum=limits.minimum,
        maximum=limits.maximum,
        target=config.autoscale_target,
        quiet_seconds=config.autoscale_quiet,
    )


def _ns(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
