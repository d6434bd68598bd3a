"""Carries log records of an engine process to the log of the process that owns it."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from hookline_processes.line_writer import LineWriter
from hookline_processes.log_fields import FieldValue, extra_fields, process_of
from hookline_registry import Failure, isolate

MAX_LENGTH = 32_768
"""Maximum number of characters of a message and of a traceback."""

MAX_FIELDS = 32
MAX_FIELD_LENGTH = 1024


class ForwardedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A log record on its way between two processes.

    Attributes:
        logger: Name of the logger.
        level: Level, as `logging` numbers them.
        created: Seconds since the epoch.
        message: The formatted message.
        traceback: The formatted exception; empty without one.
        path: Source file of the call.
        line: Line of the call.
        fields: At most `MAX_FIELDS` fields that the caller added.
        process: Name of the process that wrote it, if that is not the sender.
    """

    logger: str
    level: int
    created: float
    message: str
    traceback: str
    path: str
    line: int
    fields: dict[str, FieldValue] = {}
    process: str = ""


class ForwardingHandler(logging.Handler):
    """Sends records through a pipe, in the engine process."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder()
        self._writer = LineWriter(
            descriptor, self._rendered, render_dropped=self._dropped
        )
        self._exceptions = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues one record."""
        traceback = ""
        if record.exc_info:
            traceback = self._exceptions.formatException(record.exc_info)
        sent = ForwardedRecord(
            record.name,
            record.levelno,
            record.created,
            record.getMessage()[:MAX_LENGTH],
            traceback[-MAX_LENGTH:],
            record.pathname,
            record.lineno,
            _fields(record),
            process_of(record),
        )
        self._writer.write(sent, is_urgent=record.levelno >= logging.WARNING)

    def close(self) -> None:
        """Sends what waits, for at most a second."""
        self._writer.close(1.0)
        super().close()

    def _rendered(self, record: ForwardedRecord) -> bytes:
        try:
            return self._encoder.encode(record) + b"\n"
        except UnicodeEncodeError:
            return self._encoder.encode(_escaped(record)) + b"\n"

    def _dropped(self, count: int) -> bytes:
        text = f"{count} log lines of the engine were dropped"
        now = time.time()
        return self._rendered(
            ForwardedRecord(__name__, logging.WARNING, now, text, "", __file__, 0)
        )


class RecordReceiver:
    """Passes forwarded records to this process's loggers, in a thread.

    The thread ends when the other end of the pipe closes.
    """

    def __init__(self, pipe: BinaryIO, process: str) -> None:
        """Starts the thread.

        Args:
            pipe: Where the records arrive; closed at the end.
            process: Name of the process, such as `engine 0`, for the records'
                `processName`. Those of its own processes get both names, such as
                `engine 0 rank 1`.
        """
        self._pipe = pipe
        self._process = process
        self._decoder = msgspec.json.Decoder(ForwardedRecord)
        name = f"log of {process}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_seconds: float) -> None:
        """Waits for the last records of a process that has ended."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        with self._pipe:
            while line := self._pipe.readline(8 * MAX_LENGTH):
                try:
                    record = self._decoder.decode(line)
                except msgspec.DecodeError:  # the process ended amid a line
                    continue
                self._pass_on(record)

    def _pass_on(self, sent: ForwardedRecord) -> None:
        logger = logging.getLogger(sent.logger)
        if not logger.isEnabledFor(sent.level):
            return
        fields = {
            **sent.fields,
            "name": sent.logger,
            "levelno": sent.level,
            "levelname": logging.getLevelName(sent.level),
            "created": sent.created,
            "msg": sent.message,
            "args": (),
            "exc_text": sent.traceback or None,
            "pathname": sent.path,
            "lineno": sent.line,
            "processName": f"{self._process} {sent.process}".rstrip(),
        }
        logger.handle(logging.makeLogRecord(fields))


def _fields(record: logging.LogRecord) -> dict[str, FieldValue]:
    found = list(extra_fields(record).items())[:MAX_FIELDS]
    return {name: _plain(value) for name, value in found}


def _plain(value: object) -> FieldValue:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value[:MAX_FIELD_LENGTH]
    text = isolate(repr, value)  # it may be any object, in the engine's thread
    if isinstance(text, Failure):
        return f"<{type(value).__name__}>"
    return text[:MAX_FIELD_LENGTH]


def _escaped(record: ForwardedRecord) -> ForwardedRecord:
    """Returns the record with lone surrogates escaped, which JSON cannot hold."""
    fields = {
        _valid(name): _valid(value) if isinstance(value, str) else value
        for name, value in record.fields.items()
    }
    return msgspec.structs.replace(
        record,
        message=_valid(record.message),
        traceback=_valid(record.traceback),
        fields=fields,
    )


def _valid(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def forwarding_log(descriptor: int, level: int) -> Iterator[ForwardingHandler]:
    """Sends all log records of this process, from a level on, through a pipe.

    What waits at the end is sent, for at most a second.
    """
    handler = ForwardingHandler(descriptor)
    logging.root.addHandler(handler)
    logging.root.setLevel(level)
    logging.captureWarnings(capture=True)
    try:
        yield handler
    finally:
        handler.close()
