"""Bytes that are hardly HTTP: bad lines, headers and chunks, smuggling, rubbish."""

import random
from collections.abc import Callable, Sequence

from hookline_faults.fuzzing.case import Case, Ending, request_bytes
from hookline_faults.fuzzing.mutator import mutated, pieces_of

_BODY = b'{"model":"demo","prompt":[1,2],"max_tokens":2}'
_GOOD = request_bytes("POST", b"/v1/completions", _BODY)
_STREAM = request_bytes(
    "POST",
    b"/v1/completions",
    b'{"model":"demo","prompt":[1],"max_tokens":200,"stream":true,"ignore_eos":true}',
)
_GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

_LINES = (
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.0",
    b"GET / HTTP/0.9",
    b"GET /",
    b"GET / HTTP/2.0",
    b"GET / HTTP/9.9",
    b"GET / HTTP/1.11111111",
    b"GET  /  HTTP/1.1",
    b"GET\t/\tHTTP/1.1",
    b" GET / HTTP/1.1",
    b"get / http/1.1",
    b"GET / HTTP/1.1\rX: y",
    b"GET /\x00 HTTP/1.1",
    b"GET /\xff HTTP/1.1",
    b"GET / / HTTP/1.1",
    b"GET " + b"/a" * 5000 + b" HTTP/1.1",
    b"GET /?" + b"a" * 9000 + b" HTTP/1.1",
    b"A" * 300 + b" / HTTP/1.1",
    b"CONNECT a:443 HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET http://[::1 HTTP/1.1",
    b"GET http://a:99999/ HTTP/1.1",
    b"GET //// HTTP/1.1",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
    b"",
    b"\r\n\r\n\r\nGET / HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /v1/completions HTTP/1.1",
    b"POST /tokenize HTTP/1.1",
)
_HEADERS = (
    b"Host: localhost",
    b"Host: a\r\nHost: b",
    b"Host:",
    b": empty",
    b"No colon",
    b"Space : a",
    b" folded: a",
    b"A: b\r\n folded",
    b"A: b\r\n\tfolded",
    b"NUL: \x00",
    b"CR: a\rb",
    b"LF: a\nb",
    b"\x80: a",
    b"A: \xff\xfe",
    b"A: " + b"a" * 7000,
    b"A: " + b"a" * 70_000,
    b"\r\n".join(b"H%d: a" % at for at in range(150)),
    b"\r\n".join(b"H%d: a" % at for at in range(3000)),
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: +5",
    b"Content-Length: 5, 5",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 1e3",
    b"Content-Length: 0x10",
    b"Content-Length: \xd9\xa3",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length: 1000000000000",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Expect: 200-maybe",
    b"Connection: close",
    b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: YQ==",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA",
    b"Connection: keep-alive, content-length",
    b"Authorization: Bearer \x00secret",
    b"Trailer: A",
)
_CHUNKS = (
    b"0\r\n\r\n",
    b"2e\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"2E;a=b\r\n" + _BODY + b"\r\n0\r\nA: b\r\n\r\n",
    b"2e;" + b"a" * 20_000 + b"\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"-1\r\n\r\n",
    b"0x2e\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"2e\n" + _BODY + b"\n0\n\n",
    b"ffffffffffffffff\r\na",
    b"FFFFFFFFFFFFFFFFFFFF\r\na",
    b"7fffffff\r\na",
    b"2f\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"\r\n",
    b"g\r\n\r\n",
    b"1\r\na\r\n" * 2000 + b"0\r\n\r\n",
    b"00000000000000000000000002e\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    b"0\r\n\r\n" + _GET,
    b"",
)
_BODIES = (b"", b"abcde", _BODY, _BODY + _GET, _GET, b"\x1f\x8b" + b"\x00" * 20)


def raw_case(source: random.Random) -> Case:
    """Returns one exchange; the same for the same state of the source."""
    name, make = source.choice(_KINDS)
    data = make(source)
    if source.random() < 0.3:
        data = mutated(data, source)
    pieces: tuple[bytes, ...] = (data,)
    pause_seconds = 0.0
    if source.random() < 0.2:
        pieces, pause_seconds = pieces_of(data, source, 5), source.uniform(0, 0.02)
    ending = source.choices(
        (Ending.READ, Ending.HALF_CLOSE, Ending.CLOSE, Ending.RESET), (6, 2, 1, 1)
    )[0]
    return Case(f"raw: {name}", pieces, pause_seconds=pause_seconds, ending=ending)


def _lines(source: random.Random) -> bytes:
    return source.choice(_LINES) + b"\r\nHost: localhost\r\n\r\n"


def _headers(source: random.Random) -> bytes:
    line = source.choice((_LINES[0], _LINES[-1], _LINES[-2]))
    chosen = source.sample(_HEADERS, source.randint(1, 3))
    body = source.choice((*_CHUNKS, *_BODIES))
    return b"\r\n".join((line, *chosen)) + b"\r\n\r\n" + body


def _chunks(source: random.Random) -> bytes:
    head = _LINES[-2] + b"\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + source.choice(_CHUNKS)


def _pipelines(source: random.Random) -> bytes:
    several = [source.choice((_GOOD, _GET, _GET, _STREAM)) for _ in range(4)]
    return b"".join(several) * source.choice((1, 1, 1, 8))


def _smuggling(source: random.Random) -> bytes:
    length = source.choice((b"0", b"4", b"5", b"6", b"46", b"92"))
    coding = source.choice(
        (b"chunked", b" chunked", b"chunked ", b"Chunked", b"x", b"identity", b"\x00")
    )
    order = [b"Content-Length: " + length, b"Transfer-Encoding: " + coding]
    source.shuffle(order)
    head = b"\r\n".join((_LINES[-2], b"Host: localhost", *order)) + b"\r\n\r\n"
    return head + source.choice(_CHUNKS) + source.choice((b"", _GET, _GOOD))


def _rubbish(source: random.Random) -> bytes:
    return source.randbytes(source.choice((1, 8, 64, 1000, 9000, 100_000)))


def _abandoned(source: random.Random) -> bytes:
    whole = source.choice((_GOOD, _STREAM, _GET))
    return whole[: source.randint(0, len(whole))]


_KINDS: Sequence[tuple[str, Callable[[random.Random], bytes]]] = (
    ("lines", _lines),
    ("headers", _headers),
    ("headers", _headers),
    ("chunks", _chunks),
    ("pipelines", _pipelines),
    ("smuggling", _smuggling),
    ("rubbish", _rubbish),
    ("abandoned", _abandoned),
)
