"""Renders log records as lines, by structlog's renderers."""

import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import structlog
from structlog.typing import Processor

from hookline_processes.log_fields import FieldValue, extra_fields, process_of
from hookline_server.logs.options import LogFormat
from hookline_server.logs.redaction import (
    in_one_line,
    indented,
    public_line,
    without_secrets,
)

EventDict = MutableMapping[str, Any]
_ON_LINES_OF_THEIR_OWN = frozenset({"exc_info", "exception", "stack"})
"""Names of fields that structlog writes below a line of text."""


class LineRenderer:
    """Renders every record in one format, with controls escaped and secrets removed."""

    def __init__(self, log_format: LogFormat, *, has_colors: bool) -> None:
        self._is_json = log_format is LogFormat.JSON
        self._renderer: Processor
        if self._is_json:
            self._renderer = structlog.processors.JSONRenderer()
        else:
            self._renderer = structlog.dev.ConsoleRenderer(
                colors=has_colors, sort_keys=False, pad_event_to=0, pad_level=False
            )
        self._second = 0
        self._second_text = ""

    def render(self, record: logging.LogRecord) -> bytes:
        """Returns the line, or lines, of a record; its traceback is in `exc_text`."""
        event = self._event(record)
        if (trace := record.exc_text) and self._is_json:
            event["exception"] = without_secrets(trace)
        text = str(self._renderer(None, record.levelname, event))
        if trace and not self._is_json:
            text = f"{text}\n{indented(trace)}"
        return without_secrets(text).encode("utf-8", "backslashreplace") + b"\n"

    def render_dropped(self, count: int) -> bytes:
        """Returns the line that reports dropped lines."""
        text = f"{count} log lines were dropped because nobody read them"
        fields = {"name": __name__, "levelno": logging.WARNING, "msg": text}
        return self.render(logging.makeLogRecord({**fields, "levelname": "WARNING"}))

    def _event(self, record: logging.LogRecord) -> EventDict:
        event: EventDict = {
            "timestamp": self._timestamp(record.created),
            "level": record.levelname.lower(),
            "event": public_line(record.getMessage()),
            "logger": record.name,
        }
        if process := process_of(record):
            event["process"] = process
        for name, value in fields_of(record).items():
            event[f"{name}_" if name in _ON_LINES_OF_THEIR_OWN else name] = value
        return event

    def _timestamp(self, seconds: float) -> str:
        whole = int(seconds)
        if whole != self._second:
            self._second = whole
            at = datetime.fromtimestamp(whole, UTC)
            self._second_text = f"{at:%Y-%m-%dT%H:%M:%S}"
        return f"{self._second_text}.{int((seconds - whole) * 1000):03}Z"


def fields_of(record: logging.LogRecord) -> dict[str, FieldValue]:
    """Returns the further fields of a record, without secrets and controls."""
    return {
        in_one_line(name): _safe(value) for name, value in extra_fields(record).items()
    }


def _safe(value: object) -> FieldValue:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return public_line(value if isinstance(value, str) else repr(value))
