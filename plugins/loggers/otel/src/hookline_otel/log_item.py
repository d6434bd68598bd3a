"""Encodes records of the log as OTLP protobuf."""

import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hookline.logged_record import LoggedRecord
from hookline_otel.trace_context import is_span_id, is_trace_id
from hookline_otel.wire import attribute, constant_text, nested, varint
from hookline_processes.log_fields import FieldValue

ScopedRecord = tuple[str, bytes]
"""The name of a Python logger, which is the record's scope, and an encoded record."""

# Encoded keys of the fields of OTLP's `LogRecord`: field number × 8 + wire type.
_TIMES: Final = struct.Struct("<cQcQ").pack  # after b"\x09" and b"\x59"
_SEVERITY: Final = b"\x10"
_SEVERITY_TEXT: Final = b"\x1a"
_BODY: Final = b"\x2a"
_ATTRIBUTE: Final = b"\x32"
_FLAGS: Final = struct.Struct("<cI").pack  # after b"\x45"
_TRACE_ID: Final = b"\x4a"
_SPAN_ID: Final = b"\x52"
_TEXT: Final = b"\x0a"  # AnyValue's string_value

_SAMPLED = 1

_TRACE_SEVERITY = 1
_SEVERITIES = (
    (logging.CRITICAL, 21),
    (logging.ERROR, 17),
    (logging.WARNING, 13),
    (logging.INFO, 9),
    (logging.DEBUG, 5),
)
"""Python's levels and the first number of OTLP's range of each severity."""


@dataclass(frozen=True, slots=True)
class LogItem:
    """A record of the log that is to be exported.

    Attributes:
        record: The record.
        observed_at: When the exporter got it, in nanoseconds since the epoch.
    """

    record: LoggedRecord
    observed_at: int

    @property
    def num_parts(self) -> int:
        return 1

    def encode(self) -> list[ScopedRecord]:
        record = self.record
        level = logging.getLevelName(record.level)
        fields = [
            _TIMES(b"\x09", record.at, b"\x59", self.observed_at),
            _SEVERITY + varint(severity(record.level)),
            constant_text(_SEVERITY_TEXT, level),
            nested(_BODY, nested(_TEXT, record.message.encode())),
            *(
                attribute(_ATTRIBUTE, name, value)
                for name, value in _attributes(record).items()
                if value is not None and value != ""
            ),
        ]
        if is_trace_id(record.trace_id):
            fields.append(nested(_TRACE_ID, bytes.fromhex(record.trace_id)))
            if is_span_id(record.span_id):
                fields.append(nested(_SPAN_ID, bytes.fromhex(record.span_id)))
                fields.append(_FLAGS(b"\x45", _SAMPLED))
        return [(record.logger, b"".join(fields))]


def severity(level: int) -> int:
    """Returns OTLP's severity number of a Python level."""
    return next(
        (number for least, number in _SEVERITIES if level >= least), _TRACE_SEVERITY
    )


def _attributes(record: LoggedRecord) -> Mapping[str, FieldValue]:
    """Attributes by the conventions, and the record's own fields by their names."""
    return {
        **record.fields,
        "code.file.path": record.path,
        "code.line.number": record.line or None,
        "exception.stacktrace": record.exception,
        "thread.name": record.thread,
        "hookline.process": record.process,
    }
