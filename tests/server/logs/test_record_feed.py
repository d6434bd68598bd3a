"""Records of the log on their way to the stat loggers."""

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.payloads import RecordsLogged
from hookline_processes.logged_record import LoggedRecord
from hookline_server.logs.options import LogFormat
from hookline_server.logs.record_feed import RecordFeed
from hookline_server.logs.safe_record import MAX_EXCEPTION, safe_record
from hookline_server.logs.set_up import ServerLog

KEY = "sk-abcdefgh1234567890"


def record_of(message: str, *args: object, **fields: object) -> logging.LogRecord:
    attributes = {
        "name": "hookline.here",
        "levelno": logging.WARNING,
        "levelname": "WARNING",
        "created": 1700000000.25,
        "msg": message,
        "args": args,
        "lineno": 7,
        "pathname": "/srv/here.py",
        "threadName": "here",
    }
    return logging.makeLogRecord({**attributes, **fields})


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServerLog]:
    with (tmp_path / "log").open("w") as file:
        made = ServerLog(LogFormat.CONSOLE, file.fileno())
        yield made
        made.close()


def messages(logged: list[RecordsLogged]) -> list[str]:
    return [each.message for part in logged for each in part.records]


def test_record_has_all_of_its_line() -> None:
    """Message, fields, place and trace are apart; absent things are empty."""
    record = record_of(
        "answered %d",
        200,
        seconds=0.5,
        request_id="r-1",
        trace_id="ab" * 16,
        span_id="cd" * 8,
        processName="engine 0",
    )

    assert safe_record(record) == LoggedRecord(
        at=1_700_000_000_250_000_000,
        level=logging.WARNING,
        logger="hookline.here",
        message="answered 200",
        fields={"seconds": 0.5, "request_id": "r-1"},
        process="engine 0",
        path="/srv/here.py",
        line=7,
        trace_id="ab" * 16,
        span_id="cd" * 8,
    )


def test_secrets_and_controls_are_removed() -> None:
    """Keys are gone from messages, fields and tracebacks, even if a name tells them."""
    record = record_of(f"got\n{KEY}", field=f"Bearer {KEY}", api_key="hunter2", token=5)
    record.exc_text = f"ValueError: {KEY}\n\x1b[2Jnext"

    made = safe_record(record)

    assert made.message == "got\\nsk-[redacted]"
    assert dict(made.fields) == {
        "field": "Bearer [redacted]",
        "api_key": "[redacted]",
        "token": "[redacted]",
    }
    assert made.exception == "ValueError: sk-[redacted]\n\\x1b[2Jnext"


def test_long_traceback_keeps_its_end() -> None:
    """The error is in the last line."""
    record = record_of("it failed")
    record.exc_text = "\n".join(["frame"] * 10_000) + "\nValueError: x"

    exception = safe_record(record).exception

    assert len(exception) == MAX_EXCEPTION
    assert exception.endswith("\nValueError: x")


def test_records_of_the_startup_are_passed_on_later(log: ServerLog) -> None:
    """What was logged before the loggers existed comes first, and nothing is lost."""
    logged: list[RecordsLogged] = []
    log.handle(record_of("loading"))

    log.feed(logged.append)
    log.handle(record_of("serving"))
    log.end_feed()
    log.handle(record_of("too late"))

    assert messages(logged) == ["loading", "serving"]
    assert sum(each.missed for each in logged) == 0


def test_nobody_waits_for_a_logger_that_hangs() -> None:
    """Records beyond the queue are dropped and counted; the end is bounded."""
    hangs, release = threading.Event(), threading.Event()
    logged: list[RecordsLogged] = []

    def hang(part: RecordsLogged) -> None:
        hangs.set()
        release.wait()
        logged.append(part)

    feed = RecordFeed(max_waiting=10)
    feed.put(record_of("first"))
    feed.start(hang)
    assert hangs.wait(60)

    for number in range(25):
        feed.put(record_of(f"later {number}"))
    feed.close(0.0)
    release.set()
    feed.close(60)

    assert len(messages(logged)) == 11
    assert sum(each.missed for each in logged) == 15


def test_field_that_cannot_be_shown_costs_its_record_only() -> None:
    """An extra field may be any object."""

    class Mad:
        def __repr__(self) -> str:
            raise ValueError("mad")

    logged: list[RecordsLogged] = []
    feed = RecordFeed()
    feed.put(record_of("bad", field=Mad()))
    feed.put(record_of("good"))
    feed.start(logged.append)
    feed.close(60)

    assert messages(logged) == ["good"]
    assert sum(each.missed for each in logged) == 1


def test_nothing_is_kept_that_nobody_wants() -> None:
    """Without a logger for them records neither wait nor count."""
    feed = RecordFeed(max_waiting=1)
    feed.put(record_of("early"))
    feed.put(record_of("too many"))

    feed.discard()
    feed.put(record_of("later"))

    logged: list[RecordsLogged] = []
    feed.start(logged.append)
    feed.close(60)
    assert messages(logged) == []


def test_log_that_nobody_reads_is_exported_all_the_same() -> None:
    """A full pipe stops the lines, not the records."""
    read, write = os.pipe()
    log = ServerLog(LogFormat.CONSOLE, write)
    logged: list[RecordsLogged] = []
    log.feed(logged.append)

    for number in range(300):
        log.handle(record_of("x" * 1000, lineno=number))
    log.end_feed()

    assert len(messages(logged)) == 300
    os.close(read)
    log.close()
    os.close(write)
