"""Follows vLLM's scheduler in its own process: the events and record of each step."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from msgspec.structs import replace

from hookline.engine.commands import Command, EngineMessage
from hookline.engine.tap import Tap
from hookline.events import Queued, StepEvents, StepOutput
from hookline.finish_cause import FinishCause
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import Obstacle
from hookline.step import StepPlan, StepResult
from hookline_vllm.notices import now
from hookline_vllm.scheduling import has_workers
from hookline_vllm.steps import StepTeller, _Known

MOST_LATE = 64
"""Calls of taps that may wait; usual are four a step."""


class OwnSteps(StepTeller):
    """A `StepTeller` of a scheduler whose requests have Hookline's numbers as names.

    Attributes:
        ready: A plan that is to be told once the workers have it, with when it was
            begun and complete; None without one.
        is_planning: Whether the scheduler makes a plan.
    """

    def __init__(
        self,
        told: "Told",
        scheduler: Any,
        engine_index: int,
        tell_state: Callable[[], SchedulerStats],
    ) -> None:
        super().__init__(told, scheduler, engine_index)
        self._tell_state = tell_state
        self.ready: tuple[int, Any, int] | None = None
        self.is_planning = False

    def tell_plan(self) -> None:
        """Tells of the plan that is ready, if any."""
        ready, self.ready = self.ready, None
        if ready is not None:
            self.planned(*ready, self.state())

    def ended(self, requests: Iterable[Any]) -> None:
        """Takes requests that were ended from outside just now."""
        self.finished(requests, now(), self.state())

    def state(self) -> SchedulerStats:
        """Returns the engine's state."""
        return self._tell_state()

    def added(self, request: Any, at: int) -> None:  # noqa: ARG002 - it was queued before
        """Knows a request by the number that is its name."""
        length = len(request.prompt_token_ids)
        self._known[request.request_id] = _Known(int(request.request_id), length)


class Told:
    """A `Tap` that keeps what the teller tells until it is complete.

    The installed taps are told late: while vLLM's workers compute, or when it has
    nothing to do. What comes between a step's result and its output follows that.

    Attributes:
        outputs: Outputs that have not been taken, in order; `add` adds one.
        causes: Why requests are being ended from outside, by their numbers.
        drafts: Numbers of draft tokens that the last step has verified, likewise.
        is_updating: Whether vLLM takes in the result of a step.
        tap: The installed taps; None without any.
    """

    def __init__(self, tap: Tap | None) -> None:
        self.tap = tap
        self.outputs: list[StepOutput] = []
        self.causes: dict[int, FinishCause] = {}
        self.drafts: dict[int, int] = {}
        self.is_updating = False
        self._queued: list[Queued] = []
        self._late: list[Callable[[Tap], None]] = []
        self._result: Callable[[Tap], None] | None = None
        self._held: list[Callable[[Tap], None]] = []

    def queued(self, request_id: int, prompt_tokens: int) -> None:
        """Notes a request, which comes with the next output."""
        self._queued.append(Queued(request_id, now(), prompt_tokens))

    @property
    def has_news(self) -> bool:
        """Whether there is something to tell."""
        return bool(self.outputs or self._queued)

    def add(self, output: StepOutput) -> None:
        """Adds an output, with the requests that its state has and none had before."""
        if self._queued:
            output.events.queued, self._queued = self._queued, []
        self.outputs.append(output)

    def drain(self) -> list[StepOutput]:
        """Takes the outputs."""
        outputs, self.outputs = self.outputs, []
        return outputs

    def command(self, at: int, command: Command) -> None:
        """Nothing: the engine passes its commands on itself."""

    def tell_late(self, tell: Callable[[Tap], None]) -> None:
        """Has the installed taps told when there is time."""
        if self._result is not None:
            self._held.append(tell)
        elif self.tap is not None:
            self._late.append(tell)
            if len(self._late) >= MOST_LATE:
                self.catch_up()

    def tell_output(self, output: StepOutput) -> None:
        """Has them told of an output: a step's directly after its result."""
        if self.tap is None:
            return
        if output.record is not None and self._result is not None:
            self._late.append(self._result)
            self._result = None
        self._late.append(lambda tap: tap.output(output.at, output))
        if self._result is None:
            held, self._held = self._held, []
            self._late += held

    def catch_up(self) -> None:
        """Tells them all that is late."""
        if self.tap is not None and self._late:
            late, self._late = self._late, []
            for tell in late:
                tell(self.tap)

    def planned(self, at: int, plan: StepPlan) -> None:
        self.tell_late(lambda tap: tap.planned(at, plan))

    def blocked(self, at: int, obstacle: Obstacle) -> None:
        """Nothing: plans have their obstacle."""

    def gated(self, at: int, request_id: int, gate: str) -> None:
        """Nothing: vLLM tells of no gate."""

    def computed(self, at: int, plan: StepPlan, result: StepResult) -> None:
        if self.tap is not None:
            self._result = lambda tap: tap.computed(at, plan, result)

    def output(self, at: int, message: EngineMessage) -> None:  # noqa: ARG002
        assert isinstance(message, StepOutput)
        events = message.events
        for place, event in enumerate(events.finished):
            if (cause := self.causes.pop(event.request_id, None)) is not None:
                events.finished[place] = replace(event, cause=cause)
        self.add(message)

    def close(self, error: BaseException | None) -> None:
        """Tells the taps all that they have not been told, and that it ends."""
        if self._result is not None:
            self._late += [self._result, *self._held]
            self._result = None
        self.catch_up()
        if self.tap is not None:
            self.tap.close(error)


def follow(
    scheduler: Any, steps: OwnSteps, told: Told, *, overlaps: bool = False
) -> None:
    """Has a scheduler tell of what it does; only this one, and not its class.

    Args:
        scheduler: VLLM's.
        steps: Is told.
        told: What it tells.
        overlaps: Whether the caller has taps told while the workers compute.
    """
    is_alone = not has_workers(scheduler)

    def adding(request: Any) -> Callable[[Any], None]:
        return lambda _: steps.added(request, now())

    def scheduling(*_: Any) -> Callable[[Any], None]:
        steps.tell_plan()
        started_at, steps.is_planning = now(), True

        def scheduled(plan: Any) -> None:
            steps.is_planning = False
            steps.ready = (started_at, plan, now())
            if is_alone:  # what it waits for is computed in this thread
                steps.tell_plan()
                told.catch_up()

        return scheduled

    def updating(plan: Any, *_: Any) -> Callable[[Mapping[Any, Any]], None]:
        steps.tell_plan()
        executed_at, drafts = now(), plan.scheduled_spec_decode_tokens
        told.drafts = {int(name): len(drafts[name]) for name in drafts}
        told.is_updating = True

        def updated(outputs: Mapping[Any, Any]) -> None:
            told.is_updating = False
            steps.updated(executed_at, plan, outputs, now(), steps.state())

        return updated

    def finishing(*_: Any) -> Callable[[Any], None]:
        steps.tell_plan()
        # Those that end in an update come with its outputs, and their error.
        return (lambda _: None) if told.is_updating else steps.ended

    def preempting(request: Any, timestamp: float, *_: Any) -> Callable[[Any], None]:
        steps.tell_plan()
        computed = request.num_computed_tokens
        is_planning = steps.is_planning
        return lambda _: steps.preempted(request, timestamp, computed, is_planning)

    def computing(*_: Any) -> Callable[[Any], None]:
        # Asked for once the workers have the plan.
        steps.tell_plan()
        return (lambda _: None) if overlaps else (lambda _: told.catch_up())

    _around(scheduler, "get_grammar_bitmask", computing)
    _around(scheduler, "add_request", adding)
    _around(scheduler, "schedule", scheduling)
    _around(scheduler, "update_from_output", updating)
    _around(scheduler, "_preempt_request", preempting)
    _around(scheduler, "finish_requests", finishing)


def _around(
    scheduler: Any, name: str, tell: Callable[..., Callable[[Any], None]]
) -> None:
    inner = getattr(scheduler, name)

    @wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        tell_result = tell(*args)
        result = inner(*args, **kwargs)
        tell_result(result)
        return result

    setattr(scheduler, name, call)


def no_events() -> StepEvents:
    """Returns events of which there are none yet."""
    return StepEvents(queued=[], scheduled=[], preempted=[], new_tokens=[], finished=[])
