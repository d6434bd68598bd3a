"""Lines of the log: one format, nothing forged, no secrets, no floods."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_server.logs.options import LogFormat
from hookline_server.logs.rate_limit import BURST, PERIOD_SECONDS, RateLimit
from hookline_server.logs.set_up import ServerLog

KEY = "sk-abcdefgh1234567890"

Logged = Callable[[LogFormat, logging.LogRecord], str]


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    path = tmp_path / "log"

    def write(log_format: LogFormat, record: logging.LogRecord) -> str:
        with path.open("w") as file:
            log = ServerLog(log_format, file.fileno())
            log.handle(record)
            log.close()
        return path.read_text()

    return write


def record_of(message: str, *args: object, **fields: object) -> logging.LogRecord:
    attributes = {
        "name": "hookline.here",
        "levelno": logging.INFO,
        "levelname": "INFO",
        "created": 1700000000.25,
        "msg": message,
        "args": args,
    }
    return logging.makeLogRecord({**attributes, **fields})


def test_a_line_of_text(logged: Logged) -> None:
    """Text lines have time, level, message, logger, then the fields."""
    line = logged(
        LogFormat.CONSOLE, record_of("answered %d", 200, path="/v1", at="a b")
    )

    assert line == (
        "2023-11-14T22:13:20.250Z [info] answered 200 [hookline.here] "
        "path=/v1 at='a b'\n"
    )


@pytest.mark.parametrize("name", ["exception", "stack", "other"])
def test_a_field_stays_on_its_line(logged: Logged, name: str) -> None:
    """Whatever its name is; structlog writes some below the line."""
    line = logged(LogFormat.CONSOLE, record_of("answered", **{name: "a b"}))

    assert line.endswith("='a b'\n")
    assert line.count("\n") == 1


def test_a_line_of_json(logged: Logged) -> None:
    """With the JSON format each line is one object."""
    line = logged(LogFormat.JSON, record_of("answered", seconds=0.5, process=None))

    assert json.loads(line) == {
        "timestamp": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "event": "answered",
        "logger": "hookline.here",
        "seconds": 0.5,
    }


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize(
    "text", ["a\nFAKE", "a\r\x1b[31m", "\x9b31m", "\u2028b", "\u202eb", "\ud800"]
)
def test_controls_are_escaped(logged: Logged, log_format: LogFormat, text: str) -> None:
    """No byte of a client begins a line or reaches a terminal as a control."""
    line = logged(log_format, record_of("path %s", text, field=text))

    assert line.count("\n") == 1
    assert line[:-1].isprintable()


def test_a_traceback_cannot_forge_lines(logged: Logged) -> None:
    """Every line of a traceback is indented, whatever its message contains."""
    record = record_of("it failed")
    record.exc_text = "ValueError: x\n2026-01-01T00:00:00Z [error] FAKE\x1b[2J"

    first, *rest = logged(LogFormat.CONSOLE, record).splitlines()

    assert first.endswith("it failed [hookline.here]")
    assert len(rest) == 2
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {KEY}",
        f"b'authorization: bearer {KEY}'",
        "Bearer abcdefgh1234567890",
        f'{{"api_key": "{KEY}"}}',
        f"--api-key={KEY}",
        f"the key {KEY} is wrong",
        f"the key is\n{KEY}",
        f"Bearer\n{KEY}",
    ],
)
def test_secrets_are_removed(logged: Logged, log_format: LogFormat, text: str) -> None:
    """Keys in messages, fields and tracebacks are replaced."""
    record = record_of("got %s", text, field=text)
    record.exc_text = f"ValueError: {text}"

    line = logged(log_format, record)

    assert "abcdefgh1234567890" not in line
    assert line.count("[redacted]") >= 3


def test_ordinary_words_stay(logged: Logged) -> None:
    """Tokens and keys that are no secrets are not replaced."""
    text = "generated 12 tokens for the key of tenant a, basic or not"

    assert text in logged(LogFormat.CONSOLE, record_of(text))


def test_line_that_cannot_be_shown_costs_no_other(tmp_path: Path) -> None:
    """An extra field may be any object; the line is dropped and counted."""

    class Mad:
        def __repr__(self) -> str:
            raise ValueError("mad")

    path = tmp_path / "log"
    with path.open("w") as file:
        log = ServerLog(LogFormat.CONSOLE, file.fileno())
        log.handle(record_of("bad", field=Mad(), lineno=1))
        log.handle(record_of("good", lineno=2))
        log.close()

    assert " good " in path.read_text()
    assert log.stats().unread == 1


def test_long_texts_are_cut(logged: Logged) -> None:
    """A line has a bounded length."""
    assert len(logged(LogFormat.CONSOLE, record_of("x" * 1_000_000))) < 10_000


def test_one_place_cannot_flood_the_log() -> None:
    """A place has so many lines per period; the next period's first counts the rest."""
    now = 0.0
    limit = RateLimit(clock=lambda: now)
    records = [record_of("again", lineno=5) for _ in range(BURST + 7)]

    passed = [limit.filter(record) for record in records]
    now = PERIOD_SECONDS
    later = record_of("again", lineno=5)

    assert passed == [True] * BURST + [False] * 7
    assert limit.filter(record_of("elsewhere", lineno=6))
    assert limit.filter(later)
    assert later.left_out == 7  # type: ignore[attr-defined]
    assert limit.left_out == 7


def test_unlimited_loggers_have_no_limit() -> None:
    """The access log has one line for each request, however many there are."""
    limit = RateLimit(frozenset({"hookline.here"}))

    assert all(limit.filter(record_of("again")) for _ in range(10 * BURST))


def test_nothing_blocks_while_nobody_reads() -> None:
    """Lines beyond the pipe and the queue are dropped and counted."""
    read, write = os.pipe()
    log = ServerLog(LogFormat.CONSOLE, write)

    for number in range(20_000):
        log.handle(record_of("x" * 500, lineno=number))

    assert log.stats().unread > 0
    os.close(read)
    log.close()
    os.close(write)
