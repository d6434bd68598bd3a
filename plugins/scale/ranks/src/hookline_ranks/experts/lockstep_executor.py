"""Counts what whole experts compute, in step with engines that share them if any do.

It stands between the core and its executor: a step with work begins for all engines,
and one without, or a look for KV transfers, gives way to theirs.
"""

import msgspec

from hookline.config import EngineConfig
from hookline.engine.worker.executor import Executor, StartedStep
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import RankUse
from hookline.step import SleepLevel, StepPlan, StepResult
from hookline_metrics.expert_stats import EXPERT_STATS, ExpertStats
from hookline_ranks.experts.lockstep import Lockstep


class _CountedStep:
    """A step whose experts are counted once it has ended."""

    def __init__(self, started: StartedStep, owner: "LockstepExecutor") -> None:
        self._started, self._owner = started, owner

    def result(self) -> StepResult:
        found = self._started.result()
        self._owner.count(found.execution.rank_use)
        return found


class LockstepExecutor:
    """A `SharingExecutor` around another executor; for the thread of the core.

    Attributes:
        shape: The executor's.
        pids: The executor's.
        hosts: The executor's.
        bell: Descriptor that is readable once other engines need this one; None if no
            other engine shares its experts.
    """

    def __init__(self, executor: Executor, lockstep: Lockstep | None = None) -> None:
        """Wraps an executor whose model is ready.

        Args:
            executor: Computes the steps, with whole experts.
            lockstep: Keeps step with engines that share its experts; None without any.
        """
        self.shape = executor.shape
        self.pids, self.hosts = executor.pids, executor.hosts
        self.bell = None if lockstep is None else lockstep.bell
        self._executor, self._lockstep = executor, lockstep
        self._experts = ExpertStats()
        self._is_asleep = False

    def wait_for_others(self) -> None:
        """Waits until all engines that share experts have loaded their models."""
        if self._lockstep is not None:
            self._lockstep.wait_for_others()

    # -- the executor ------------------------------------------------------------

    def start(self, plan: StepPlan) -> StartedStep:
        if self._lockstep is not None:
            if plan.request_ids:
                self._lockstep.start_step()
            else:
                self.assist_others()
        started = self._executor.start(plan)
        return _CountedStep(started, self)

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

    def assist_others(self) -> bool:
        """Implements `SharingExecutor`."""
        if self._lockstep is None:
            return False
        self._lockstep.hear()
        if self._is_asleep or (use := self._lockstep.assist()) is None:
            return False
        self._experts = self._experts.with_dummy_step(use)
        return True

    def rest(self) -> bool:
        """Implements `SharingExecutor`."""
        return self._lockstep is None or self._lockstep.rest()

    def rise(self) -> None:
        """Implements `SharingExecutor`."""
        if self._lockstep is not None:
            self._lockstep.rise()

    # -- experts -----------------------------------------------------------------

    def count(self, use: RankUse) -> None:
        """Adds what experts have computed in a step of this engine."""
        self._experts = self._experts.with_step(use)

    def add_stats(self, stats: SchedulerStats) -> SchedulerStats:
        """Implements `SharingExecutor`."""
        sections = {**stats.sections, EXPERT_STATS.name: self._experts}
        return msgspec.structs.replace(stats, sections=sections)


def counting(config: EngineConfig, executor: Executor) -> Executor:
    """Returns an executor that counts what whole experts compute, if there are any."""
    if not config.parallel.enable_expert_parallel:
        return executor
    return LockstepExecutor(executor)
