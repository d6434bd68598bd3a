"""How many spans or log records wait, and for how long, as the variables say."""

from collections.abc import Mapping
from dataclasses import dataclass

from hookline_otel.endpoint import Signal
from hookline_otel.variables import integer

_PREFIXES = {Signal.TRACES: "OTEL_BSP", Signal.LOGS: "OTEL_BLRP"}

# Records may have tracebacks of kilobytes, and collectors refuse messages above 4 MiB.
_USUAL = {Signal.TRACES: (8192, 512), Signal.LOGS: (4096, 128)}
_DELAY_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """Settings of one of the SDK's batching processors.

    Attributes:
        max_waiting: Parts that wait for their export at most.
        max_batch: Parts of one export at most.
        delay_ms: Milliseconds between two exports, unless a batch is full before.
    """

    max_waiting: int
    max_batch: int
    delay_ms: int = _DELAY_MS

    @classmethod
    def of(cls, signal: Signal, environment: Mapping[str, str]) -> "Batching":
        """Reads the variables of traces or of logs."""
        prefix, (waiting, batch) = _PREFIXES[signal], _USUAL[signal]
        max_waiting = integer(environment, f"{prefix}_MAX_QUEUE_SIZE", waiting)
        max_batch = integer(environment, f"{prefix}_MAX_EXPORT_BATCH_SIZE", batch)
        return cls(
            max_waiting=max_waiting,
            max_batch=min(max_batch, max_waiting),
            delay_ms=integer(environment, f"{prefix}_SCHEDULE_DELAY", _DELAY_MS, 0)
            or 1,
        )
