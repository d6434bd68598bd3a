"""Limits of connections, and answers to malformed requests, without a server."""

import errno
import json
import logging
import resource

import pytest
from aiohttp import http_exceptions

from hookline.exceptions import ConfigError
from hookline_server.api_error import ApiError
from hookline_server.connections.limits import (
    FEWEST_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    ConnectionLimits,
    connections_allowed,
)
from hookline_server.connections.pool import AcceptErrors, ConnectionPool
from hookline_server.connections.refusal import (
    MAX_FIELD_BYTES,
    MAX_LINE_BYTES,
    malformed,
    to_bytes,
)
from hookline_server.settings import ServerSettings

SECRET = "hunter2"  # noqa: S105 - what a client sent


def test_some_descriptors_are_kept_for_other_uses() -> None:
    """Connections may take what is free, but for the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    allowed = connections_allowed()

    assert FEWEST_CONNECTIONS <= allowed < soft - RESERVED_DESCRIPTORS


def test_limits_are_checked_four_times_as_often_as_the_shortest() -> None:
    """But neither all the time nor rarely."""
    sweeps = [
        ConnectionLimits(header=seconds).sweep_seconds for seconds in (0.01, 1.0, 60.0)
    ]

    assert sweeps == [0.05, 0.25, 1.0]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (http_exceptions.LineTooLong(SECRET.encode(), MAX_LINE_BYTES), 414),
        (http_exceptions.LineTooLong(SECRET.encode(), MAX_FIELD_BYTES), 431),
        (http_exceptions.BadHttpMessage("Too many headers received"), 431),
        (http_exceptions.InvalidHeader(SECRET), 400),
        (http_exceptions.InvalidURLError(SECRET), 400),
        (http_exceptions.BadHttpMethod(error=f"No method:\n\n  {SECRET}\n ^"), 400),
        (http_exceptions.BadHttpMessage(f"{SECRET}: no reason"), 400),
        (None, 400),
    ],
)
def test_errors_of_the_parser_keep_the_requests_bytes_to_themselves(
    error: Exception | None, status: int
) -> None:
    """Each has a status of its own, and none repeats what the client sent."""
    answer = malformed(error)

    assert answer.status == status
    assert SECRET not in str(answer)


def test_the_parsers_own_reason_is_kept() -> None:
    """It stands before an empty line, behind which the request's bytes begin."""
    error = http_exceptions.BadHttpMessage(f"Invalid header token:\n\n  {SECRET}\n ^")

    message = str(malformed(error))

    assert message == "the request is not valid HTTP: Invalid header token"


def test_a_refusal_is_a_whole_response() -> None:
    """It has the API's error object, the time to try again, and no Server header."""
    error = ApiError(503, "later", code="busy", retry_after_seconds=7)

    head, _, body = to_bytes(error, "some-id").partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")

    assert lines[0] == "HTTP/1.1 503 Service Unavailable"
    assert {"Retry-After: 7", "X-Request-Id: some-id", "Connection: close"} < set(lines)
    assert f"Content-Length: {len(body)}" in lines
    assert json.loads(body)["error"]["code"] == "busy"
    assert not any(line.lower().startswith("server:") for line in lines)


def test_failures_to_accept_are_logged_once_per_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line counts those since the last one."""
    errors = AcceptErrors()
    missing = OSError(errno.EMFILE, "Too many open files")

    with caplog.at_level(logging.WARNING):
        for second in range(70):
            errors.add(missing, float(second))

    assert errors.count == 70
    assert [record.getMessage().split(" ")[-2:] for record in caplog.records] == [
        ["(1", "times)"],
        ["(60", "times)"],
    ]


async def test_more_connections_than_descriptors_are_not_promised() -> None:
    """An option beyond what the process may open is reduced to that."""
    limits = ConnectionLimits(max_connections=1_000_000_000)

    pool = ConnectionPool(limits)

    assert pool.max_connections <= connections_allowed()
    assert pool.stats().open == 0


@pytest.mark.parametrize("name", ["header_timeout", "body_timeout", "write_timeout"])
def test_a_limit_of_no_time_is_refused(name: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match=name.replace("_", "-")):
        ServerSettings(**{name: 0.0})  # type: ignore[arg-type]
