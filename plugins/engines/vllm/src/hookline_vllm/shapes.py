"""What is read of vLLM's objects, by the names of vLLM 0.32."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol

from hookline_registry import Failure, isolate

_log = logging.getLogger("vllm.hookline")


class SamplingShape(Protocol):
    """`SamplingParams`."""

    n: int
    max_tokens: int | None
    min_tokens: int
    temperature: float
    top_p: float
    top_k: int
    output_kind: Any


class RequestShape(Protocol):
    """`EngineCoreRequest`."""

    request_id: str
    external_req_id: str | None
    prompt_token_ids: list[int] | None
    prompt_embeds: Any
    sampling_params: SamplingShape | None
    arrival_time: float
    lora_request: Any
    priority: int
    session_id: str | None
    trace_headers: Mapping[str, str] | None


class EventShape(Protocol):
    """`EngineCoreEvent`: seconds on the engine's monotonic clock."""

    type: int
    timestamp: float


QUEUED, SCHEDULED, PREEMPTED = 1, 2, 3
"""Values of `EngineCoreEventType`."""


class OutputShape(Protocol):
    """`EngineCoreOutput`."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: Any
    stop_reason: int | str | None
    events: Sequence[EventShape] | None
    prefill_stats: Any
    pooling_output: Any


class SchedulerShape(Protocol):
    """`SchedulerStats`."""

    num_running_reqs: int
    num_waiting_reqs: int
    num_skipped_waiting_reqs: int
    kv_cache_usage: float
    prefix_cache_stats: Any
    kv_cache_eviction_events: Sequence[Any]


class IterationShape(Protocol):
    """`IterationStats`."""

    num_generation_tokens: int
    prompt_token_stats: Any
    num_preempted_reqs: int
    finished_requests: Sequence[Any]
    time_to_first_tokens_iter: Sequence[float]
    inter_token_latencies_iter: Sequence[float]


REQUEST = tuple(RequestShape.__annotations__)
OUTPUT = tuple(OutputShape.__annotations__)
SCHEDULER = tuple(SchedulerShape.__annotations__)
ITERATION = tuple(IterationShape.__annotations__)


class ShapeError(Exception):
    """An attribute of vLLM is missing that a tier needs."""


def need(owner: object, *names: str) -> None:
    """Checks a class or an object of vLLM.

    Raises:
        ShapeError: It has no attribute of one of these names.
    """
    known = {*dir(owner), *getattr(owner, "__annotations__", ())}
    for name in names:
        if name not in known:
            kind = owner if isinstance(owner, type) else type(owner)
            raise ShapeError(f"{kind.__module__}.{kind.__qualname__}.{name}")


def attach(what: str, attaching: Callable[[], object]) -> bool:
    """Runs what attaches a tier; if it cannot, one log line names the attribute."""
    outcome = isolate(attaching)
    if not isinstance(outcome, Failure):
        return True
    error = outcome.error
    if isinstance(error, ShapeError | ImportError | AttributeError):
        _log.warning("hookline: no %s, vLLM has changed: %s", what, error)
    else:
        _log.error("hookline: no %s: %s", what, outcome.summary)
    return False


def wrap(owner: type, name: str, told: Callable[..., None]) -> None:
    """Calls `told(result, *args, **kwargs)` after each call of a method of vLLM.

    It may not wait; what it raises vLLM does not notice.
    """
    original = getattr(owner, name)
    if getattr(original, "is_hookline", False):
        return

    @wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        outcome = isolate(told, result, *args, **kwargs)
        if isinstance(outcome, Failure):
            complain(name, outcome)
        return result

    wrapped.is_hookline = True  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)


_complained: set[str] = set()


def complain(what: str, failure: Failure) -> None:
    """Logs the first failure of a kind."""
    if what not in _complained:
        _complained.add(what)
        _log.warning("hookline: %s is not understood: %s", what, failure.summary)


def each_of(found: Iterable[Any] | None) -> Iterable[Any]:
    """Returns what vLLM leaves out as None as nothing."""
    return () if found is None else found
