"""Subclasses whatever scheduler vLLM has chosen, in the engine's process."""

from functools import cache, wraps
from typing import Any

from hookline_registry import Failure, isolate
from hookline_vllm.notices import now
from hookline_vllm.shapes import complain, need

METHODS = (
    *("schedule", "update_from_output", "_preempt_request"),
    *("add_request", "finish_requests", "shutdown"),
    *("get_grammar_bitmask", "has_requests"),
)
GATHER_NS = 20_000_000
"""Steps of so long are told together: short ones, one by one, take twice the time."""
MOST_LATE = 256
"""Calls that may wait; usual are two a step."""


def wrap_choice(config: type) -> None:
    """Has `SchedulerConfig` choose a subclass of what it chooses."""
    need(config, "get_scheduler_cls")
    original = config.get_scheduler_cls  # type: ignore[attr-defined]
    if getattr(original, "is_hookline", False):
        return

    @wraps(original)
    def get_scheduler_cls(self: object) -> type:
        chosen: type = original(self)
        told = isolate(telling, chosen)
        if isinstance(told, Failure):
            complain("the scheduler", told)
            return chosen
        return told

    get_scheduler_cls.is_hookline = True  # type: ignore[attr-defined]
    config.get_scheduler_cls = get_scheduler_cls  # type: ignore[attr-defined]


@cache
def telling(base: type) -> type:
    """Returns a subclass of a scheduler that tells of its steps.

    Raises:
        ShapeError: It lacks a method.
    """
    need(base, *METHODS)
    resting: Any = _resting(base)

    class Telling(resting):  # type: ignore[misc]
        """The scheduler that vLLM has chosen, and what follows it."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._hookline = Guarded(self)

        def add_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            result = super().add_request(request, *args, **kwargs)
            self._hookline.tell_late("added", request, now())
            return result

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            hookline, started_at = self._hookline, now()
            hookline.is_planning = True
            result = super().schedule(*args, **kwargs)
            hookline.is_planning = False
            hookline.planned(started_at, result)
            return result

        def update_from_output(
            self, scheduler_output: Any, *args: Any, **kwargs: Any
        ) -> Any:
            executed_at = now()
            result = super().update_from_output(scheduler_output, *args, **kwargs)
            self._hookline.updated(executed_at, scheduler_output, result)
            return result

        def _preempt_request(
            self, request: Any, timestamp: float, *args: Any, **kwargs: Any
        ) -> Any:
            computed = request.num_computed_tokens
            result = super()._preempt_request(request, timestamp, *args, **kwargs)
            hookline = self._hookline
            told = request, timestamp, computed, hookline.is_planning
            hookline.tell_late("preempted", *told)
            return result

        def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
            result = super().finish_requests(*args, **kwargs)
            self._hookline.finished(result)
            return result

        def shutdown(self) -> Any:
            self._hookline.tell_late("close")
            self._hookline.catch_up()
            return super().shutdown()

    Telling.__name__, Telling.__qualname__ = base.__name__, base.__qualname__
    Telling.__module__ = base.__module__
    return Telling


def _resting(base: type) -> type:
    """Returns a subclass that catches up when its thread would only wait."""

    class Resting(base):  # type: ignore[misc]
        def get_grammar_bitmask(self, *args: Any, **kwargs: Any) -> Any:
            """Is called once the workers have the plan, which is told if any are."""
            result = super().get_grammar_bitmask(*args, **kwargs)
            self._hookline.catch_up_in_time()
            return result

        def has_requests(self) -> Any:
            """Is called before the engine waits for requests."""
            if result := super().has_requests():
                return result
            self._hookline.catch_up()
            return result

    return Resting


class Guarded:
    """Passes calls on to what follows a scheduler; its first failure ends that.

    What it does takes no time of a step: it is done while the workers compute. Where
    they hang, some plan of the last `GATHER_NS` is told that has no result.

    Attributes:
        is_planning: Whether the scheduler makes a plan.
    """

    def __init__(self, scheduler: Any) -> None:
        from hookline_vllm.taps import step_teller  # noqa: PLC0415 - takes a second

        self.is_planning = False
        made = isolate(step_teller, scheduler)
        self._teller: Any = None
        if isinstance(made, Failure):
            complain("the scheduler", made)
        else:
            self._teller = made
        self._late: list[tuple[str, tuple[Any, ...]]] = []
        self._latest = ""
        self._caught_up_at = 0
        # Where workers are no processes, they have computed before there is time.
        self._has_workers = has_workers(scheduler)

    def tell_late(self, what: str, *told: Any) -> None:
        """Tells it when there is time."""
        if self._teller is not None:
            self._late.append((what, told))
            if len(self._late) >= MOST_LATE:
                self.catch_up()

    def planned(self, started_at: int, plan: Any) -> None:
        """Tells of a plan late, with the time and the state of now."""
        self._with_state("planned", started_at, plan)
        if not self._has_workers:
            self.catch_up_in_time()

    def updated(self, executed_at: int, plan: Any, outputs: Any) -> None:
        """Tells of a step's result late, likewise."""
        self._with_state("updated", executed_at, plan, outputs)

    def finished(self, requests: Any) -> None:
        """Tells of requests that were ended from outside, likewise."""
        if requests:
            self._with_state("finished", requests)

    def _with_state(self, what: str, *told: Any) -> None:
        if self._teller is None:
            return
        at, state = now(), isolate(self._teller.state)
        if isinstance(state, Failure):
            self._fail("state", state)
        else:
            self.tell_late(what, *told, at, state)

    def catch_up_in_time(self) -> None:
        """Tells all that is late, if that is some time ago."""
        if now() - self._caught_up_at >= GATHER_NS:
            self.catch_up()

    def catch_up(self) -> None:
        """Tells all that is late."""
        if self._late:
            self._caught_up_at = now()
            late, self._late = self._late, []
            outcome = isolate(self._tell_all, late)
            if isinstance(outcome, Failure):
                self._fail(self._latest, outcome)

    def _tell_all(self, late: list[tuple[str, tuple[Any, ...]]]) -> None:
        teller = self._teller
        if teller is not None:
            for self._latest, told in late:
                getattr(teller, self._latest)(*told)

    def _fail(self, what: str, failure: Failure) -> None:
        self._teller = None
        complain(f"steps ({what})", failure)


def has_workers(scheduler: Any) -> bool:
    """Returns whether vLLM's workers are processes of their own."""
    config = getattr(scheduler, "vllm_config", None)
    parallel = getattr(config, "parallel_config", None)
    return getattr(parallel, "distributed_executor_backend", None) in ("mp", "ray")
