"""The stat logger of vLLM that starts Hookline's, and tells them of iterations."""

from typing import Any, cast

from hookline_vllm.attachment import ATTACHMENT, Attachment
from hookline_vllm.notices import Recorded, Refused, Slept, now
from hookline_vllm.shapes import (
    ITERATION,
    SCHEDULER,
    IterationShape,
    SchedulerShape,
    attach,
    need,
)


def make_stat_logger(base: type, attachment: Attachment) -> type:
    """Returns a subclass of vLLM's `AggregateStatLoggerBase`."""
    inbox = attachment.inbox

    class StatLogger(base):  # type: ignore[misc]
        """Copies references into a bounded queue; raises nothing, waits for nothing."""

        def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
            self._config = vllm_config
            self._indexes = list(engine_indexes)
            inbox.is_open = True

        def log_engine_initialized(self) -> None:
            attach("loggers", lambda: attachment.start(self._config, self._indexes))

        def record(
            self,
            scheduler_stats: object,
            iteration_stats: object,
            mm_cache_stats: object = None,  # noqa: ARG002 - vLLM's own
            engine_idx: int = 0,
            **_: object,
        ) -> None:
            inbox.put(
                Recorded(
                    now(),
                    engine_idx,
                    cast("SchedulerShape | None", scheduler_stats),
                    cast("IterationShape | None", iteration_stats),
                )
            )

        def log(self) -> None:
            """Hookline's loggers keep time themselves."""

        def record_sleep_state(self, is_awake: int, level: int) -> None:
            """VLLM passes 1 for asleep, whatever the parameter's name."""
            inbox.put(Slept(now(), level if is_awake else 0))

        def record_admission_rejection(self, reason: str) -> None:
            inbox.put(Refused(now(), str(reason)))

    return StatLogger


def _vllms() -> type:
    """Returns the stat logger for the vLLM that is installed."""
    from vllm.v1.metrics import loggers, stats  # noqa: PLC0415 - only there

    need(loggers, "AggregateStatLoggerBase")
    need(stats.SchedulerStats(), *SCHEDULER)
    need(stats.IterationStats(), *ITERATION)
    return make_stat_logger(loggers.AggregateStatLoggerBase, ATTACHMENT)


def __getattr__(name: str) -> object:
    if name == "StatLogger":
        return _vllms()
    raise AttributeError(name)
