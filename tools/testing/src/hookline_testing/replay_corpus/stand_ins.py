"""What a simulated engine lacks: gates, stop tokens, faults, vectors and drafts."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hookline.clock import NANOSECONDS, Clock
from hookline.engine.scheduler.readiness import Readiness
from hookline.engine.worker.executor import DeferredStep, Executor, StartedStep
from hookline.finish_cause import Corrupted, Failed, FinishCause, Rejected
from hookline.pooling import POOLING
from hookline.request import Origin, Request
from hookline.step import StepPlan, StepResult
from hookline_testing.simulation import EOS
from hookline_testing.wrapped_executor import WrappedExecutor

Change = Callable[[StepPlan, StepResult], StepResult]


class TimedGate:
    """A `ReadinessGate` that some requests wait at for a while, and some fail at."""

    param = None
    timeout_ns = None
    is_pending = False

    def __init__(self, clock: Clock, name: str = "grammar") -> None:
        self.name = name
        self._clock = clock
        self._ready_at: dict[int, tuple[int, Request]] = {}
        self._known: set[int] = set()

    def is_open(self, request: Request) -> bool:
        """Returns False once for each third request."""
        request_id = request.request_id
        if request_id in self._known or request_id % 3:
            return True
        self._known.add(request_id)
        wait = (50 + 7 * request_id % 200) * NANOSECONDS // 1000
        self._ready_at[request_id] = self._clock.now() + wait, request
        return False

    def take_ready(self) -> Sequence[Readiness]:
        now = self._clock.now()
        ended = [each for each, (at, _) in self._ready_at.items() if at <= now]
        return [Readiness(self._ready_at.pop(each)[1], _cause(each)) for each in ended]

    def cancel(self, request: Request) -> None:
        self._ready_at.pop(request.request_id, None)

    def close(self) -> None:
        """Has nothing to end."""


def _cause(request_id: int) -> FinishCause | None:
    return Rejected("invalid_grammar", "") if request_id % 12 == 0 else None


class ChangedResults(WrappedExecutor):
    """Changes the results of another executor."""

    def __init__(self, inner: Executor, change: Change) -> None:
        super().__init__(inner)
        self._change = change

    def start(self, plan: StepPlan) -> StartedStep:
        started = self._inner.start(plan)
        return DeferredStep(lambda _: self._change(plan, started.result()), plan)


def stopping(seed: int) -> Change:
    """Has some requests end with a stop token."""
    source = random.Random(seed)  # noqa: S311 - no secret

    def change(plan: StepPlan, result: StepResult) -> StepResult:
        del plan
        for new in result.tokens.values():
            if source.random() < 0.05:
                new[source.randrange(len(new))] = EOS
        return result

    return change


def failing(seed: int) -> Change:
    """Has some requests fail, or go on although they are corrupted."""
    source = random.Random(seed)  # noqa: S311 - no secret

    def change(plan: StepPlan, result: StepResult) -> StepResult:
        causes: tuple[FinishCause, ...] = (
            Failed("broken"),
            Corrupted.logits(Origin.MODEL),
            Corrupted.logits(Origin.MODEL, is_served=True),
            Corrupted.logits(Origin.LOGITS_PROCESSOR),
        )
        failed = {
            each: source.choice(causes)
            for each in plan.request_ids
            if source.random() < 0.03
        }
        return replace(result, failed=failed) if failed else result

    return change


@dataclass(slots=True)
class Embedding:
    """Tells which prompts that are only pooled have been computed."""

    missing: dict[int, int]

    def __call__(self, plan: StepPlan, result: StepResult) -> StepResult:
        for each in plan.admitted:
            if each.is_prefill_only:
                left = each.num_prompt_tokens - each.num_computed_tokens
                self.missing[each.request_id] = left
        ended = []
        for request_id, count in zip(plan.request_ids, plan.num_tokens, strict=True):
            if request_id in self.missing:
                self.missing[request_id] -= count
                if self.missing[request_id] == 0:
                    ended.append(request_id)
        if not ended:
            return result
        return replace(result, sections={**result.sections, POOLING: ended})
