"""A record of a server's log, as stat loggers get it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hookline_processes.log_fields import FieldValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecord:
    """A record of the log; it has no secrets and no control characters.

    Attributes:
        at: When it was written, in nanoseconds since the epoch.
        level: Level, as `logging` numbers them.
        logger: Name of the Python logger.
        message: The message, in one line.
        fields: Further fields by name, such as `request_id`.
        exception: Traceback, with several lines; empty without one.
        process: Process that wrote it, such as `engine 0`; empty for the server's own.
        thread: Name of the server's thread that wrote it; empty for other processes.
        path: Source file of the call.
        line: Line of the call.
        trace_id: Trace of its request, 32 hexadecimal digits; empty without one.
        span_id: Span of its request, 16 hexadecimal digits; empty if the request is not
            traced, or was not submitted yet.
    """

    at: int
    level: int
    logger: str
    message: str
    fields: Mapping[str, FieldValue] = field(
        default_factory=lambda: MappingProxyType({})
    )
    exception: str = ""
    process: str = ""
    thread: str = ""
    path: str = ""
    line: int = 0
    trace_id: str = ""
    span_id: str = ""
