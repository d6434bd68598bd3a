"""The fields that a caller added to a log record."""

import logging

_STANDARD = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
)


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of a record that `logging` did not set, by name."""
    return {
        name: value for name, value in record.__dict__.items() if name not in _STANDARD
    }
