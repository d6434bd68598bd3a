"""Subclasses whatever scheduler vLLM has chosen, in the engine's process."""

from functools import cache, wraps
from typing import Any

from hookline_registry import Failure, isolate
from hookline_vllm.notices import now
from hookline_vllm.shapes import complain, need

METHODS = (
    *("schedule", "update_from_output", "_preempt_request"),
    *("add_request", "finish_requests", "shutdown"),
)


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

    class Telling(base):  # type: ignore[misc]
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
            self._hookline.tell("planning")
            result = super().schedule(*args, **kwargs)
            self._hookline.tell("planned", started_at, result)
            return result

        def update_from_output(
            self, scheduler_output: Any, *args: Any, **kwargs: Any
        ) -> Any:
            executed_at = now()
            result = super().update_from_output(scheduler_output, *args, **kwargs)
            self._hookline.tell("updated", executed_at, scheduler_output, result)
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


class Guarded:
    """Passes calls on to what follows a scheduler; its first failure ends that."""

    def __init__(self, scheduler: Any) -> None:
        from hookline_vllm.taps import step_teller  # noqa: PLC0415 - takes a second

        made = isolate(step_teller, scheduler)
        self._teller: Any = None
        if isinstance(made, Failure):
            complain("the scheduler", made)
        else:
            self._teller = made

    def tell(self, what: str, *told: Any) -> None:
        if self._teller is None:
            return
        outcome = isolate(getattr(self._teller, what), *told)
        if isinstance(outcome, Failure):
            self._teller = None
            complain(f"steps ({what})", outcome)
