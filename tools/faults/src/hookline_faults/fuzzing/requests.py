"""Requests in good form whose bodies, headers and paths are fuzzed."""

import dataclasses
import gzip
import random
import re
import zlib

from hypothesis import strategies as st

from hookline_faults.fuzzing.bodies import ENDPOINTS, bodies, huge_body
from hookline_faults.fuzzing.case import Case, Header, request_bytes
from hookline_faults.fuzzing.mutator import mutated

_VALUES = (
    b"",
    b"a",
    b"a" * 129,
    b"a" * 4000,
    b"\xff\xfe",
    b"\xc3\xa9",
    b"0",
    b"-1",
    b"1e9",
    b"nan",
    b"inf",
    b"{}",
    b"a, b, c",
    b"\x1b[31m",
    b"%00",
    b"bytes=0-",
)
_HEADERS: dict[bytes, tuple[bytes, ...]] = {
    b"X-Request-Id": (b"abc", b"a:b._-", *_VALUES),
    b"X-Hookline-SLO": (
        b"ttft=0.5",
        b"ttft=0.5,tpot=0.05,e2e=10",
        b"ttft=nan",
        b"ttft=1e400",
        b"ttft=,e2e",
        *_VALUES,
    ),
    b"X-Request-Timeout": (b"10", b"0.001", b"1e300", b"-0", *_VALUES),
    b"X-data-parallel-rank": (b"0", b"1", b"-1", b"9" * 40, *_VALUES),
    b"X-Tenant": (b"blue", b"../..", *_VALUES),
    b"traceparent": (
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"00-00000000000000000000000000000000-0000000000000000-00",
        b"ff-" + b"a" * 52,
        *_VALUES,
    ),
    b"tracestate": (b"a=b", b"=" * 600, *_VALUES),
    b"Content-Type": (b"application/json", b"text/xml; charset=utf-7", *_VALUES),
    b"Accept": (b"text/event-stream", *_VALUES),
    b"Accept-Encoding": (b"gzip, br, zstd", *_VALUES),
    b"Authorization": (b"Bearer a", b"Bearer", b"Basic YTpi", *_VALUES),
    b"Cookie": (b"a=b; c", *_VALUES),
    b"Range": _VALUES,
    b"If-None-Match": _VALUES,
    b"X-Forwarded-For": (b"10.0.0.1", *_VALUES),
    b"X-HTTP-Method-Override": (b"DELETE", *_VALUES),
}
_ENCODINGS = (
    b"gzip",
    b"x-gzip",
    b"deflate",
    b"br",
    b"zstd",
    b"identity",
    b"gzip, gzip",
)
_TARGETS = (
    b"/",
    b"/v1/models",
    b"/v1/models/demo",
    b"/v1/models/%00",
    b"/v1/models/%2e%2e/%2e%2e",
    b"/v1/models/" + b"a" * 3000,
    b"/v1/models/%ff%fe",
    b"/v1//completions",
    b"//v1/completions",
    b"/v1/completions/",
    b"/V1/COMPLETIONS",
    b"/v1/completions?a=b&a=%00",
    b"/version",
    b"/health",
    b"/health/live",
    b"/health/ready",
    b"/health/deep",
    b"/metrics",
    b"/metrics?name[]=a",
    b"/metrics/",
    b"/x%0aFAKE%1b[31m",
    b"/%",
    b"/%zz",
    b"/..;/metrics",
    b"/static/../../etc/passwd",
    b"/is_sleeping",
    b"/sleep",
    b"/favicon.ico",
    b"*",
    b"http://elsewhere/v1/models",
    b"/?" + b"a=b&" * 500,
)
_LENGTH = re.compile(rb"content-length:", re.IGNORECASE)
_METHODS = (
    *("GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"),
    *("TRACE", "BREW"),
)


@st.composite
def requests(draw: st.DrawFn) -> Case:
    """Returns a request: mostly to an endpoint, sometimes to another path."""
    headers = draw(_headers())
    if draw(st.integers(0, 5)) == 0:
        method = draw(st.sampled_from(_METHODS))
        target = draw(st.sampled_from(_TARGETS))
        data = request_bytes(method, target, headers=headers)
        return _case("paths", data, headers)
    endpoint = draw(st.sampled_from(ENDPOINTS))
    body = draw(bodies(endpoint))
    if draw(st.integers(0, 15)) == 0:
        body, header = draw(_encoded(body))
        headers = [*headers, header]
        data = request_bytes("POST", endpoint.encode(), body, headers)
        return _case("encodings", data, headers)
    data = request_bytes("POST", endpoint.encode(), body, headers)
    return _case(endpoint, data, headers)


def with_mutated_body(case: Case, source: random.Random) -> Case:
    """Returns the case with a body that the mutator has changed."""
    head, _, body = case.data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not _LENGTH.match(line)]
    body = mutated(body, source)
    lines.append(b"Content-Length: %d" % len(body))
    data = b"\r\n".join(lines) + b"\r\n\r\n" + body
    return dataclasses.replace(case, kind="mutated bodies", pieces=(data,))


def huge_request(source: random.Random) -> Case:
    """Returns a request whose body is 20 KB to 8 MB, some of them deflated bombs."""
    endpoint = source.choice(ENDPOINTS)
    size = round(20_000 * 400 ** source.random())
    body = huge_body(endpoint, source, size)
    headers: list[Header] = []
    if source.random() < 0.2:
        encoding = source.choice((b"gzip", b"deflate"))
        headers = [(b"Content-Encoding", encoding)]
        body = body * 20 if source.random() < 0.5 else body
        body = gzip.compress(body) if encoding == b"gzip" else zlib.compress(body)
    return Case(
        "huge bodies",
        (request_bytes("POST", endpoint.encode(), body, headers),),
        is_request=True,
    )


@st.composite
def _headers(draw: st.DrawFn) -> list[Header]:
    if draw(st.booleans()):
        return []
    names = draw(st.lists(st.sampled_from(sorted(_HEADERS)), max_size=3))
    return [(name, draw(st.sampled_from(_HEADERS[name]))) for name in names]


@st.composite
def _encoded(draw: st.DrawFn, body: bytes) -> tuple[bytes, Header]:
    name = draw(st.sampled_from(_ENCODINGS))
    match draw(st.sampled_from(("right", "plain", "cut", "tail", "twice"))):
        case "right":
            body = gzip.compress(body) if b"gzip" in name else zlib.compress(body)
        case "cut":
            body = gzip.compress(body)[: -draw(st.integers(1, 12))]
        case "tail":
            body = gzip.compress(body) + b"tail"
        case "twice":
            body = gzip.compress(gzip.compress(body))
        case _:
            pass
    return body, (b"Content-Encoding", name)


def _case(kind: str, data: bytes, headers: list[Header]) -> Case:
    has_deadline = any(name == b"X-Request-Timeout" for name, _ in headers)
    return Case(kind, (data,), is_request=True, may_time_out=has_deadline)
