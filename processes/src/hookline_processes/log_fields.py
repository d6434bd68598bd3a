"""What a log record has beside its message: its process, and its caller's fields."""

import logging

FieldValue = str | bool | int | float | None
"""What a field may hold on its way to another process."""

_STANDARD = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)
_MAIN_PROCESS = "MainProcess"


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of a record that `logging` did not set, by name."""
    return {
        name: value for name, value in record.__dict__.items() if name not in _STANDARD
    }


def process_of(record: logging.LogRecord) -> str:
    """Returns the process that wrote a record; empty for this one."""
    name = record.processName
    return "" if name in {None, _MAIN_PROCESS} else str(name)
