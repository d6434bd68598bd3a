"""Computes an engine's steps, together with engines that share its experts if any do.

It stands between the core and its executor: a step with work begins for all engines,
and one without, or a look for KV transfers, gives way to theirs.
"""

import msgspec

from hookline.core.lockstep import Lockstep
from hookline.stats import ExpertStats, RankUse, SchedulerStats
from hookline.step import SleepLevel, StepPlan, StepResult
from hookline.worker.executor import Executor, StartedStep


class _CountedStep:
    """A step whose experts are counted once it has ended."""

    def __init__(self, started: StartedStep, owner: "StepsTogether") -> None:
        self._started, self._owner = started, owner

    def result(self) -> StepResult:
        found = self._started.result()
        self._owner.count(found.rank_use)
        return found


class StepsTogether:
    """An `Executor` around another one; for the thread of the core.

    Attributes:
        shape: The executor's.
        pids: The executor's.
        hosts: The executor's.
        bell: Descriptor that is readable once other engines need this one; None if no
            other engine shares its experts.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        has_whole_experts: bool = False,
        lockstep: Lockstep | None = None,
    ) -> None:
        """Wraps an executor whose model is ready.

        Args:
            executor: Computes the steps.
            has_whole_experts: What its experts compute is counted.
            lockstep: Keeps step with engines that share its experts; None without any.
        """
        self.shape = executor.shape
        self.pids, self.hosts = executor.pids, executor.hosts
        self.bell = None if lockstep is None else lockstep.bell
        self._executor, self._lockstep = executor, lockstep
        self._counts = has_whole_experts
        self._experts = ExpertStats()
        self._is_asleep = False

    # -- the executor ------------------------------------------------------------

    def start(self, plan: StepPlan) -> StartedStep:
        if self._lockstep is not None:
            if plan.request_ids:
                self._lockstep.begin()
            else:
                self.assist()
        started = self._executor.start(plan)
        return _CountedStep(started, self) if self._counts else started

    def check(self) -> None:
        self._executor.check()

    def sleep(self, level: SleepLevel) -> None:
        self._executor.sleep(level)
        self._is_asleep = True

    def wake_up(self) -> None:
        self._executor.wake_up()
        self._is_asleep = False

    def close(self) -> None:
        self._executor.close()

    # -- other engines -----------------------------------------------------------

    def assist(self) -> bool:
        """Computes a dummy step if others have begun a step; returns whether it did.

        Called while this engine has nothing to compute itself.
        """
        if self._lockstep is None:
            return False
        self._lockstep.hear()
        if self._is_asleep or (use := self._lockstep.assist()) is None:
            return False
        self._experts = self._experts.with_dummy_step(use)
        return True

    def rest(self) -> bool:
        """Returns whether no engine needs this one any more, which begins no step.

        Engines that share experts go to sleep together.
        """
        return self._lockstep is None or self._lockstep.rest()

    def rise(self) -> None:
        """Tells that this engine, which is awake, may begin steps again."""
        if self._lockstep is not None:
            self._lockstep.rise()

    # -- experts -----------------------------------------------------------------

    def count(self, use: RankUse) -> None:
        """Adds what experts have computed in a step of this engine."""
        self._experts = self._experts.with_step(use)

    def with_experts(self, stats: SchedulerStats) -> SchedulerStats:
        """Adds to a state what whole experts have done, if there are any."""
        if not self._counts:
            return stats
        return msgspec.structs.replace(stats, experts=self._experts)
