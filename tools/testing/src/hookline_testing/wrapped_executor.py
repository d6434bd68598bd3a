"""An executor around another one, for tests that change a part of what it does."""

from hookline.engine.worker.executor import Executor, StartedStep
from hookline.step import SleepLevel, StepPlan


class WrappedExecutor:
    """Passes every call on to the inner executor."""

    def __init__(self, inner: Executor) -> None:
        self.shape, self.pids, self.hosts = inner.shape, inner.pids, inner.hosts
        self._inner = inner

    def start(self, plan: StepPlan) -> StartedStep:
        return self._inner.start(plan)

    def check(self) -> None:
        self._inner.check()

    def sleep(self, level: SleepLevel) -> None:
        self._inner.sleep(level)

    def wake_up(self) -> None:
        self._inner.wake_up()

    def close(self) -> None:
        self._inner.close()
