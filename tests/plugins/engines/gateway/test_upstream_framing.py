"""Where the bodies of upstreams' answers end, whatever pieces they come in."""

from collections.abc import Sequence

import pytest

from hookline_gateway.upstreams.connections.errors import NotHttpError
from hookline_gateway.upstreams.connections.framing import MOST_LINE_BYTES, framing_of
from hookline_gateway.upstreams.connections.head import read_head, request_head

CHUNKED = "Transfer-Encoding: chunked"


def fed(
    lines: Sequence[str], body: bytes, size: int, method: str = "POST"
) -> tuple[bytes, bool, bytes]:
    """Returns what a body's pieces of this size give: content, completeness, rest."""
    head = read_head("\r\n".join(("HTTP/1.1 200 OK", *lines)).encode())
    framing = framing_of(head, method)
    content = bytearray()
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        if framing.is_complete:
            framing.rest += piece
        else:
            content += framing.feed(piece)
    return bytes(content), framing.is_complete, framing.rest


BODIES = {
    "chunks": (
        [CHUNKED],
        b"3\r\nabc\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\n",
        "abc0123456789",
    ),
    "a break in a chunk": ([CHUNKED], b"4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"),
    "trailers": ([CHUNKED], b"1\r\na\r\n0\r\nX: y\r\nZ: 1\r\n\r\n", "a"),
    "a length": (["Content-Length: 4"], b"abcd", "abcd"),
    "one length twice": (["Content-Length: 1", "Content-Length: 1"], b"a", "a"),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", BODIES)
def test_body_is_the_same_in_any_pieces(name: str, size: int) -> None:
    """All of its content, and nothing of what follows it."""
    lines, body, content = BODIES[name]

    assert fed(lines, body, size) == (content.encode(), True, b"")
    assert fed(lines, body + b"HTTP", size) == (content.encode(), True, b"HTTP")
    _, is_complete, _ = fed(lines, body[:-1], size)
    assert not is_complete


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ([CHUNKED], b"zz\r\n"),
        ([CHUNKED], b"-1\r\n"),
        ([CHUNKED], b"0x1\r\na\r\n"),
        ([CHUNKED], b"1\na\n"),
        ([CHUNKED], b"1\r\nab\r\n"),
        ([CHUNKED], b"ffffffffffffffffff\r\n"),
        ([CHUNKED], b"1;" + b"x" * (MOST_LINE_BYTES + 1)),
        ([CHUNKED, "Content-Length: 1"], b""),
        (["Transfer-Encoding: gzip, chunked"], b""),
        (["Content-Length: 1", "Content-Length: 2"], b""),
        (["Content-Length: -1"], b""),
        (["Content-Length: 1_0"], b""),
        ([" folded: x"], b""),
        (["Name : x"], b""),
        (["no colon"], b""),
        (["X: a\x00b"], b""),
    ],
)
def test_malformed_answers_are_refused(lines: Sequence[str], body: bytes) -> None:
    """What could end in two places is not passed on to anybody."""
    with pytest.raises(NotHttpError):
        fed(lines, body, 1000)


def test_bodies_that_end_with_the_connection_or_are_none() -> None:
    """The method and the status decide before any header does."""
    assert fed([], b"abc", 2) == (b"abc", False, b"")
    assert fed(["Content-Length: 9"], b"", 1, "HEAD") == (b"", True, b"")


def test_request_cannot_be_split() -> None:
    """A header that has a line break in it is none."""
    assert request_head("GET", "/", [("A", "ä")], 0) == (
        "GET / HTTP/1.1\r\nA: ä\r\n\r\n".encode()
    )
    with pytest.raises(ValueError, match="control"):
        request_head("GET", "/", [("A", "b\r\nC: d")], 0)
