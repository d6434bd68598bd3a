"""Bytes that are not HTTP, or not quite."""

from collections.abc import Iterator

import pytest

from hookline_testing.raw_http import exchange
from hookline_testing.server_process import Server, serving

HOST = b"Host: localhost\r\n"
COMPLETION = b'{"model": "demo", "prompt": "a", "max_tokens": 2}'
POST = b"POST /v1/completions HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

CASES = {
    "no HTTP": (b"GARBAGE\r\n\r\n", 400),
    "a TLS handshake": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "an unknown method": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "another version": (b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "a control character in a name": (
        b"GET / HTTP/1.1\r\n" + HOST + b"Authorization\x01: Bearer hunter2\r\n\r\n",
        400,
    ),
    "a control character in a value": (
        b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer hunter2\x01\r\n\r\n",
        400,
    ),
    "a long target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "a long header": (
        b"GET / HTTP/1.1\r\n" + HOST + b"X-Long: " + b"a" * 9000 + b"\r\n\r\n",
        431,
    ),
    "many headers": (
        b"GET / HTTP/1.1\r\n" + HOST + b"X-Many: a\r\n" * 200 + b"\r\n",
        431,
    ),
    "large headers together": (
        b"GET / HTTP/1.1\r\n" + HOST + (b"X-Large: " + b"a" * 8000 + b"\r\n") * 20,
        431,
    ),
    "a size of a chunk that is none": (
        POST + b"Transfer-Encoding: chunked\r\n\r\nhunter2\r\n",
        400,
    ),
    "a broken second chunk": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nhunter2\r\n",
        400,
    ),
    "an unknown transfer encoding": (
        POST + b"Transfer-Encoding: hunter2\r\n\r\n",
        400,
    ),
    "two lengths": (
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        400,
    ),
    "two lengths that differ": (
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        400,
    ),
    "two lengths that are equal": (
        POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        400,
    ),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a folded header": (
        b"GET / HTTP/1.1\r\n" + HOST + b"X-Folded: a\r\n hunter2\r\n\r\n",
        400,
    ),
    "a chunked body that is not the last coding": (
        POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    "extensions of chunks that are longer than the body": (
        CHUNKED + b"1;hunter2=" + b"x" * 2_000_000 + b"\r\n{\r\n0\r\n\r\n",
        400,
    ),
    "many chunks with extensions": (
        CHUNKED + (b"1;hunter2=" + b"x" * 500 + b"\r\n \r\n") * 4000,
        400,
    ),
    "a size of a chunk with many zeros": (
        CHUNKED + b"0" * 2_000_000 + b"1\r\n{\r\n0\r\n\r\n",
        400,
    ),
    "a length that is no number": (POST + b"Content-Length: 1e12\r\n\r\n", 400),
    "a length beyond the limit": (POST + b"Content-Length: 1000000000000\r\n\r\n", 413),
    "plain JSON as gzip": (
        POST
        + b"Connection: close\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        % len(COMPLETION)
        + COMPLETION,
        400,
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--executor", "simulated", "--port", "0") as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_malformed_requests_get_json(server: Server, name: str) -> None:
    """
    The answer is the API's error object, at once, without the name of any software and
    without a byte of the request.
    """
    data, status = CASES[name]

    answer = exchange(server.port, data, timeout_seconds=20)

    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/json")
    assert "server" not in answer.headers
    assert answer.error["type"] == "invalid_request_error"
    assert b"hunter2" not in answer.body
    assert "hunter2" not in server.log.read_text()


@pytest.mark.parametrize("path", ["/health", "/metrics", "/v1/models", "/nowhere"])
def test_no_answer_names_the_software(server: Server, path: str) -> None:
    """Neither pages nor errors have a Server header."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = exchange(server.port, request.encode())

    assert answer.status in (200, 404)
    assert "server" not in answer.headers
