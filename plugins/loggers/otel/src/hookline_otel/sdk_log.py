"""Listens to what the exporters log: nowhere else do they say why they failed."""

import logging
import threading
from types import TracebackType
from typing import Self

_EXPORTERS = "opentelemetry.exporter.otlp.proto"
_LOGGERS = (
    f"{_EXPORTERS}.grpc.exporter",
    f"{_EXPORTERS}.http.metric_exporter",
    f"{_EXPORTERS}.http.trace_exporter",
    "opentelemetry.trace.span",  # would print what clients write into `tracestate`
)


class SdkMessages(logging.Filter):
    """Takes this thread's lines out of the program's log for as long as it is open.

    The program may use OpenTelemetry for purposes of its own; its lines pass.

    Attributes:
        first: The first line of an exporter: later ones only say that it gave up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = ""
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        for name in _LOGGERS:
            # In front: the exporters' own filter swallows what looks like a repetition.
            logging.getLogger(name).filters.insert(0, self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if threading.get_ident() != self._thread:
            return True
        if not self.first and record.name.startswith(_EXPORTERS):
            self.first = record.getMessage()
        return False
