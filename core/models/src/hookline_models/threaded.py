"""Runs an executor in its own thread, so that the core plans while it computes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Protocol, runtime_checkable

from hookline.engine.worker.executor import Executor
from hookline.stats.step_work import RankUse
from hookline.step import SleepLevel, StepPlan, StepResult


@runtime_checkable
class AssistingExecutor(Protocol):
    """An executor whose model's experts several engines share; called likewise."""

    def assist(self) -> RankUse:
        """Computes its experts in a step of other engines, and waits for its end.

        No started step may be without a result. Any exception is fatal to the engine.
        """
        ...


class ThreadedExecutor:
    """Builds and runs another executor in one separate thread.

    OpenMP keeps a team of threads for each calling thread. The model is loaded, probed
    and run from this one, so there is a single team.
    """

    def __init__(self, build: Callable[[], Executor]) -> None:
        """Builds the inner executor; its exceptions reach the caller."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hookline-forward")
        with ExitStack() as undoing:
            undoing.callback(self._thread.shutdown)
            self._inner = self._thread.submit(build).result()
            undoing.pop_all()
        self.shape = self._inner.shape
        self.pids, self.hosts = self._inner.pids, self._inner.hosts

    def start(self, plan: StepPlan) -> Future[StepResult]:
        return self._thread.submit(self._compute, plan)

    def assist(self) -> RankUse:
        return self._thread.submit(self._assist).result()

    def check(self) -> None:
        self._inner.check()

    def sleep(self, level: SleepLevel) -> None:
        self._thread.submit(self._inner.sleep, level).result()

    def wake_up(self) -> None:
        self._thread.submit(self._inner.wake_up).result()

    def close(self) -> None:
        """Waits for the step under way; one queued after it is cancelled."""
        self._thread.shutdown(cancel_futures=True)
        self._inner.close()

    def _assist(self) -> RankUse:
        assert isinstance(self._inner, AssistingExecutor)
        return self._inner.assist()

    def _compute(self, plan: StepPlan) -> StepResult:
        return self._inner.start(plan).result()
