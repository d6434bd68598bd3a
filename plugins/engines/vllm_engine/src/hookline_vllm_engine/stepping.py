"""Runs steps of vLLM, whose workers compute one while clients are told the last."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookline.frozen import EMPTY
from hookline_vllm.scheduling import has_workers


class _Begun(NamedTuple):
    """A step that the workers have.

    Attributes:
        plan: What they have to compute.
        computed: Future of the model's run.
        sampled: Future of the result; the same where nothing is sampled.
        is_executed: Whether there is anything to compute.
    """

    plan: Any
    computed: Any
    sampled: Any
    is_executed: bool


class Stepper:
    """Runs a core's steps, in the thread that drives it.

    vLLM's own `step` waits for the model and, once more, for the samples. Where workers
    are processes, this begins a step and takes its result in later, so that its thread
    tells of the last step meanwhile, and the workers sample without having to ask. A
    core with a queue of batches has steps in flight by itself.

    Attributes:
        overlaps: Whether steps are dispatched and collected; otherwise they are run.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self._begun: _Begun | None = None
        self.overlaps = core.batch_queue is None and has_workers(core.scheduler)

    @property
    def has_work(self) -> bool:
        """Whether a step is in flight, or can be made."""
        core = self._core
        is_in_flight = self._begun is not None or bool(core.batch_queue)
        return is_in_flight or bool(core.scheduler.has_requests())

    def dispatch(self) -> None:
        """Gives the workers a step, which has to be collected before the next one."""
        core, executor = self._core, self._core.model_executor
        plan = core.scheduler.schedule()
        with core.log_error_detail(plan):
            computed = executor.execute_model(plan, non_block=True)
        has_tokens = plan.total_num_scheduled_tokens > 0
        is_executed = has_tokens and not core.is_mm_encoder_only
        grammar, sampled = core.scheduler.get_grammar_bitmask(plan), computed
        if is_executed and not core.is_pooling_model:
            sampled = executor.sample_tokens(grammar, non_block=True)
        self._begun = _Begun(plan, computed, sampled, is_executed)

    def wait(self) -> None:
        """Waits for the result of the step that was begun, if any."""
        if (begun := self._begun) is None:
            return
        with self._core.log_error_detail(begun.plan):
            if begun.sampled.result() is None:
                begun.computed.result()  # raises what has kept them from sampling
                raise RuntimeError("vLLM's workers have returned no result of a step")

    def collect(self) -> tuple[Mapping[int, Any], bool] | None:
        """Takes in the result that was waited for.

        Returns:
            What `run` returns; None if no step was begun.
        """
        if (begun := self._begun) is None:
            return None
        self._begun = None
        result = begun.sampled.result()
        outputs = self._core.scheduler.update_from_output(begun.plan, result)
        self._core.post_step(begun.is_executed)
        return outputs, begun.is_executed

    def run(self) -> tuple[Mapping[int, Any], bool]:
        """Runs a step, or what the core does of several.

        Returns:
            Each client's outputs, and whether anything was computed.
        """
        outputs, is_executed = self._core.step_fn()
        self._core.post_step(is_executed)
        return outputs or EMPTY, is_executed
