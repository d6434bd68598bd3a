"""What OpenTelemetry's exporters log of their failures, without a line for each."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)


class _Listener(logging.Filter):
    """Keeps lines of a thread that listens from the log; others pass."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        lines: list[str] | None = getattr(self.thread, "lines", None)
        if lines is None:
            return True
        lines.append(record.getMessage())
        return False


_listener = _Listener()


@contextmanager
def listening() -> Iterator[list[str]]:
    """Yields what the exporters say in this thread, which is not logged."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _listener not in logger.filters:
            # In front of the exporters' own filter, which swallows what they repeat.
            logger.filters.insert(0, _listener)
    before = getattr(_listener.thread, "lines", None)
    lines: list[str] = []
    _listener.thread.lines = lines
    try:
        yield lines
    finally:
        _listener.thread.lines = before
