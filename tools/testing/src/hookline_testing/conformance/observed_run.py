"""All that can happen to a stat logger, taken from a run without a model."""

from collections.abc import Sequence
from functools import cache
from typing import TypeVar, cast

from msgspec import inspect

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import ExecutorConfig, ObserverConfig
from hookline.payloads import (
    EngineFailed,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
    LoggerContext,
    RecordsLogged,
)
from hookline_processes.logged_record import LoggedRecord
from hookline_testing.recording_logger import RecordingLogger
from hookline_testing.wire_samples import Record, sample

T = TypeVar("T")


class _Kept(RecordingLogger):
    """Keeps what it is told after its engine has ended."""

    last: "_Kept | None" = None

    def __init__(self, context: LoggerContext) -> None:
        del context
        super().__init__()
        _Kept.last = self


@cache
def payloads() -> Sequence[tuple[str, object]]:
    """Returns hooks and their payloads, in the order in which they are called."""
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=(f"{__name__}:_Kept",)),
    )
    with LLM.from_config(config) as llm:
        prompts = ["def add(a, b):", "def add(a, b):", "x"]
        llm.generate(prompts, SamplingParams(max_tokens=3), use_tqdm=False)
    assert _Kept.last is not None
    *calls, stopped = _Kept.last.calls
    failed = EngineFailed(
        engine_index=0, reason="killed by signal 9", open_requests=1, is_final=False
    )
    answered = HttpAnswered(
        exchanges=(_sample(HttpExchange),), in_flight={("/v1/completions", "POST"): 1}
    )
    logged = RecordsLogged(records=(_sample(LoggedRecord),))
    return (
        *calls,
        ("http_answered", answered),
        ("front_end_changed", FrontEndChanged(parts=())),
        ("records_logged", logged),
        ("engine_failed", failed),
        calls[0],
        stopped if isinstance(stopped[1], EngineStopped) else calls[0],
    )


def _sample(kind: type[T]) -> T:
    return cast("T", sample(cast("Record", inspect.type_info(kind))))
