"""The first lines of requests and answers."""

import re
from dataclasses import dataclass

from multidict import CIMultiDict

from hookline_gateway.upstreams.connections.errors import NotHttpError
from hookline_gateway.upstreams.headers import Headers

MOST_HEAD_BYTES = 1 << 16

_STATUS = re.compile(r"HTTP/1\.([01]) ([1-9]\d\d)(?: (.*))?")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer.

    Attributes:
        minor: Minor version of HTTP/1.
        status: Its status.
        reason: The status in words.
        headers: Its headers as they came.
    """

    minor: int
    status: int
    reason: str
    headers: CIMultiDict[str]

    @property
    def content_type(self) -> str:
        """The kind of its body, without parameters."""
        kind = self.headers.get("Content-Type", "application/octet-stream")
        return kind.partition(";")[0].strip().lower()

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again."""
        words = self.headers.get("Connection", "").lower()
        return "close" not in words and (self.minor == 1 or "keep-alive" in words)


def read_head(data: bytes) -> Head:
    """Reads the lines up to the empty one.

    Raises:
        NotHttpError: They are no head of an answer.
    """
    first, *lines = data.decode("utf-8", "surrogateescape").split("\r\n")
    if (status := _STATUS.fullmatch(first)) is None:
        raise NotHttpError(f"no status line of HTTP/1.1: {first[:80]!r}")
    headers = CIMultiDict[str]()
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or _NAME.fullmatch(name) is None or _CONTROL.search(value):
            raise NotHttpError(f"a malformed header: {line[:80]!r}")
        headers.add(name, value)
    return Head(int(status[1]), int(status[2]), status[3] or "", headers)


def request_head(method: str, target: str, headers: Headers, num_bytes: int) -> bytes:
    """Returns the lines before a body of this size.

    Raises:
        ValueError: They would not be what they seem.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    if num_bytes or method in _WITH_BODY:
        lines.append(f"Content-Length: {num_bytes}")
    if _CONTROL.search("".join(lines)):
        raise ValueError("a header has a control character")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")
