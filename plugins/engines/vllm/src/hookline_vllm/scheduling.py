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
MOST_LATE = 8
"""Calls that may wait; usual are three a step."""


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
            self._hookline.tell("added", request)
            return result

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            started_at = now()
            self._hookline.tell_late("planning")
            result = super().schedule(*args, **kwargs)
            self._hookline.tell_late("planned", started_at, result, now())
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
            self._hookline.tell("preempted", request, timestamp, computed)
            return result

        def finish_requests(self, *args: Any, **kwargs: Any) -> Any:
            result = super().finish_requests(*args, **kwargs)
            self._hookline.tell("finished", result)
            return result

        def shutdown(self) -> Any:
            self._hookline.tell("close")
            return super().shutdown()

    Telling.__name__, Telling.__qualname__ = base.__name__, base.__qualname__
    Telling.__module__ = base.__module__
    return Telling


def _resting(base: type) -> type:
    """Returns a subclass that catches up when its thread would only wait."""

    class Resting(base):  # type: ignore[misc]
        def get_grammar_bitmask(self, *args: Any, **kwargs: Any) -> Any:
            """Is called once the workers have the plan."""
            result = super().get_grammar_bitmask(*args, **kwargs)
            self._hookline.catch_up()
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

    What it does takes no time of a step: it is done while the workers compute.
    """

    def __init__(self, scheduler: Any) -> None:
        from hookline_vllm.taps import step_teller  # noqa: PLC0415 - takes a second

        made = isolate(step_teller, scheduler)
        self._teller: Any = None
        if isinstance(made, Failure):
            complain("the scheduler", made)
        else:
            self._teller = made
        self._late: list[tuple[str, tuple[Any, ...]]] = []
        # Where workers are no processes, they have computed before there is time.
        self._has_workers = has_workers(scheduler)

    def tell(self, what: str, *told: Any) -> None:
        """Tells it at once, after all that is late."""
        self.catch_up()
        self._tell(what, *told)

    def tell_late(self, what: str, *told: Any) -> None:
        """Tells it when there is time."""
        if self._teller is None:
            return
        self._late.append((what, told))
        is_last = what == "planned" and not self._has_workers
        if is_last or len(self._late) >= MOST_LATE:
            self.catch_up()

    def updated(self, executed_at: int, plan: Any, outputs: Any) -> None:
        """Tells of a step's result late, with the time and the state of now."""
        if self._teller is None:
            return
        at, state = now(), isolate(self._teller.state)
        if isinstance(state, Failure):
            self._fail("state", state)
        else:
            self.tell_late("updated", executed_at, plan, outputs, at, state)

    def catch_up(self) -> None:
        """Tells all that is late."""
        if self._late:
            late, self._late = self._late, []
            for what, told in late:
                self._tell(what, *told)

    def _tell(self, what: str, *told: Any) -> None:
        if self._teller is None:
            return
        outcome = isolate(getattr(self._teller, what), *told)
        if isinstance(outcome, Failure):
            self._fail(what, outcome)

    def _fail(self, what: str, failure: Failure) -> None:
        self._teller = None
        complain(f"steps ({what})", failure)


def has_workers(scheduler: Any) -> bool:
    """Returns whether vLLM's workers are processes of their own."""
    config = getattr(scheduler, "vllm_config", None)
    parallel = getattr(config, "parallel_config", None)
    return getattr(parallel, "distributed_executor_backend", None) in ("mp", "ray")
