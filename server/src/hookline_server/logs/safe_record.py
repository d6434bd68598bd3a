"""Makes records of the log safe for stat loggers, as lines of the log are."""

import logging

from hookline.clock import NANOSECONDS
from hookline.frozen import frozen_map
from hookline_processes.log_fields import FieldValue, process_of
from hookline_processes.logged_record import LoggedRecord
from hookline_server.logs.redaction import (
    in_one_line,
    public_line,
    safe_lines,
    without_secrets,
)
from hookline_server.logs.rendering import fields_of

MAX_EXCEPTION = 8192
"""Maximum number of characters of a traceback, which keeps its end."""

REDACTED = "[redacted]"


def safe_record(record: logging.LogRecord) -> LoggedRecord:
    """Copies a record; its traceback, if any, is in `exc_text`."""
    fields = {name: _public(name, value) for name, value in fields_of(record).items()}
    trace_id, span_id = fields.pop("trace_id", ""), fields.pop("span_id", "")
    process = in_one_line(process_of(record))
    exception = "\n".join(safe_lines(record.exc_text or ""))
    microseconds = round(record.created * 1e6)  # all that the number resolves
    return LoggedRecord(
        at=microseconds * (NANOSECONDS // 1_000_000),
        level=record.levelno,
        logger=in_one_line(record.name),
        message=public_line(record.getMessage()),
        fields=frozen_map(fields),
        exception=exception[-MAX_EXCEPTION:],
        process=process,
        thread="" if process else in_one_line(record.threadName or ""),
        path=in_one_line(record.pathname),
        line=record.lineno,
        trace_id=str(trace_id),
        span_id=str(span_id),
    )


def _public(name: str, value: FieldValue) -> FieldValue:
    """Returns a field's value; in a line of the log its name would betray a secret."""
    start = f"{name}="
    text = f"{start}{value}"
    clean = without_secrets(text)
    if clean == text:
        return value
    return clean.removeprefix(start) if clean.startswith(start) else REDACTED
