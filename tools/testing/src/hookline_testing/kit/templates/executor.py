"""Executor `sample`: computes nothing, and answers with tokens in turn."""

from hookline import hookimpl
from hookline.engine.worker.executor import DeferredStep, ExecutorContext
from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline.plugin_loading.extensions import ExecutorCapabilities
from hookline.step import ModelShape, SleepLevel, StepPlan, StepResult
from hookline_simulated.factory import simulated_shape


class SampleExecutor:
    """Runs steps; called by the engine's thread only.

    Attributes:
        shape: The model, and the size of its KV cache.
        pids: Its processes; none, as it computes in this one.
        hosts: Its machines; none but this one.
    """

    pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()

    def __init__(self, shape: ModelShape) -> None:
        self.shape = shape
        self._missing: dict[int, int] = {}

    def start(self, plan: StepPlan) -> DeferredStep:
        """Accepts a step, which is computed when its result is taken."""
        return DeferredStep(self._compute, plan)

    def check(self) -> None:
        """Has no process that could have ended."""

    def sleep(self, level: SleepLevel) -> None:
        """Has no memory to return."""

    def wake_up(self) -> None:
        """Has no memory to allocate."""

    def close(self) -> None:
        """Forgets all requests."""
        self._missing.clear()

    def _compute(self, plan: StepPlan) -> StepResult:
        for request_id in plan.released:
            self._missing.pop(request_id, None)
        for each in plan.admitted:
            missing = len(each.token_ids) - each.num_computed_tokens
            self._missing[each.request_id] = missing
        tokens: dict[int, list[int]] = {}
        for request_id, count in zip(plan.request_ids, plan.num_tokens, strict=True):
            self._missing[request_id] -= count
            if self._missing[request_id] <= 0:  # the prompt is complete
                self._missing[request_id] = 1
                tokens[request_id] = [plan.step % self.shape.vocab_size]
        return StepResult(tokens=tokens)


def create(context: ExecutorContext) -> SampleExecutor:
    """Loads the model: this one reads its description alone."""
    with context.timer.phase("read config"):
        return SampleExecutor(simulated_shape(context.config))


@hookimpl
def executor_factory() -> ExecutorFactory:
    """Called when an engine starts."""
    return ExecutorFactory(create, ExecutorCapabilities())
