"""Gives an executor a thread of its own, so that the core plans while it computes."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from hookline.step.plan import StepPlan, StepResult
from hookline.worker.executor import Executor


class ThreadedExecutor:
    """An executor around another one that is built and runs in one other thread.

    OpenMP keeps a team of threads for each thread that calls it. The model is loaded,
    tried and run from this one, so there is one team.
    """

    def __init__(self, build: Callable[[], Executor]) -> None:
        """Builds the inner executor; what that raises goes on to the caller."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hookline-forward")
        with ExitStack() as undoing:
            undoing.callback(self._thread.shutdown)
            self._inner = self._thread.submit(build).result()
            undoing.pop_all()
        self.shape = self._inner.shape

    def start(self, plan: StepPlan) -> Future[StepResult]:
        return self._thread.submit(self._compute, plan)

    def close(self) -> None:
        """Waits for the step that is being computed; one behind it is not begun."""
        self._thread.shutdown(cancel_futures=True)
        self._inner.close()

    def _compute(self, plan: StepPlan) -> StepResult:
        return self._inner.start(plan).result()
