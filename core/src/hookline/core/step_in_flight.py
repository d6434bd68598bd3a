"""A step from its plan to the record that observers get."""

from dataclasses import dataclass

from hookline.events import StepRecord, VerifiedDrafts
from hookline.sections import Sections
from hookline.stats.prefix_cache import EvictionWork
from hookline.step import StepPlan, StepResult
from hookline.worker.executor import StartedStep


@dataclass(frozen=True, slots=True)
class StepInFlight:
    """A step that the executor has started.

    Attributes:
        plan: The step's plan.
        started: The executor's handle.
        started_at: Start of scheduling, monotonic ns.
        scheduled_at: Time when the executor got the plan, monotonic ns.
        evictions: Evictions from the prefix cache that made room for it.
    """

    plan: StepPlan
    started: StartedStep
    started_at: int
    scheduled_at: int
    evictions: EvictionWork

    def record(
        self,
        result: StepResult,
        told: Sections,
        verified: VerifiedDrafts,
        *,
        engine_index: int,
        waited_ns: int,
        executed_at: int,
        ended_at: int,
    ) -> StepRecord:
        """Describes the finished step.

        Args:
            result: The executor's result.
            told: What extensions tell of it.
            verified: Outcome of the step's drafts.
            engine_index: Index of the engine.
            waited_ns: Time that the step waited for the one before it, ns.
            executed_at: Time of its result, monotonic ns.
            ended_at: Time when the scheduler had processed it, monotonic ns.
        """
        plan = self.plan
        return StepRecord(
            step=plan.step,
            engine_index=engine_index,
            started_at=self.started_at,
            scheduled_at=self.scheduled_at,
            executed_at=executed_at,
            ended_at=ended_at,
            request_tokens=list(zip(plan.request_ids, plan.num_tokens, strict=True)),
            work=plan.work,
            sampled_requests=len(result.tokens),
            waited_ns=waited_ns,
            verified=verified,
            execution=result.execution,
            evictions=self.evictions,
            sections=told,
        )
