"""The executor that runs one worker in the process and thread of its caller."""

from contextlib import ExitStack

from hookline.engine.worker.executor import DeferredStep, StartedStep
from hookline.engine.worker.worker import Worker
from hookline.stats.step_work import RankUse
from hookline.step import SleepLevel, StepPlan


class UniprocExecutor:
    """Drives one worker through its phases, and computes steps when they are awaited.

    Attributes:
        shape: The loaded model, and the size of its KV cache.
    """

    pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def __init__(self, worker: Worker) -> None:
        """Loads the model of a new worker, and allocates its KV cache.

        Raises:
            ModelLoadError: The model cannot be loaded or served.
            ConfigError: An option does not fit the model or the machine.
        """
        self._worker = worker
        with ExitStack() as undoing:
            undoing.callback(self._worker.close)
            self._worker.init_device()
            self._worker.load_model()
            num_blocks = self._worker.profile()  # with one rank there is agreement
            self._worker.allocate(num_blocks)
            self.shape = self._worker.warm_up()
            undoing.pop_all()

    def start(self, plan: StepPlan) -> StartedStep:
        if (start := self._worker.start) is not None:
            return start(plan)
        return DeferredStep(self._worker.execute, plan)

    def assist(self) -> RankUse:
        return self._worker.assist()

    def check(self) -> None:
        """Has nothing to check: there is no other process."""

    def sleep(self, level: SleepLevel) -> None:
        self._worker.sleep(level)

    def wake_up(self) -> None:
        self._worker.wake_up()

    def close(self) -> None:
        self._worker.close()
