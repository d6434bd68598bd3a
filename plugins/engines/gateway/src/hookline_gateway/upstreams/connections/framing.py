"""Where the body of an answer ends (RFC 9112, 6.3)."""

import re
from typing import Protocol

from hookline_gateway.upstreams.connections.errors import NotHttpError
from hookline_gateway.upstreams.connections.head import Head

MOST_LINE_BYTES = 8192
"""Longest line before a chunk, and longest trailer."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_BREAK = b"\r\n"


class Framing(Protocol):
    """One kind of body.

    Attributes:
        is_complete: Whether all of it has come.
        ends_by_closing: Whether the end of the connection is its end.
        rest: What came after its end.
    """

    is_complete: bool
    ends_by_closing: bool
    rest: bytes

    def feed(self, data: bytes) -> bytes:
        """Returns the content of what has come.

        Raises:
            NotHttpError: It is malformed.
        """
        ...


class Sized:
    """A body of a known length."""

    ends_by_closing = False

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_complete = not size
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Returns the content of what has come."""
        if len(data) > self._left:
            data, self.rest = data[: self._left], data[self._left :]
        self._left -= len(data)
        self.is_complete = not self._left
        return data


class Endless:
    """A body that goes on until the connection ends."""

    ends_by_closing = True
    is_complete = False
    rest = b""

    def feed(self, data: bytes) -> bytes:
        """Returns the content of what has come."""
        return data


class Chunked:
    """A body in chunks."""

    ends_by_closing = False

    def __init__(self) -> None:
        self.is_complete = False
        self.rest = b""
        self._left = 0  # of a chunk
        self._has_break = False  # is to come after a chunk
        self._is_trailer = False
        self._open = b""  # a line without its end

    def feed(self, data: bytes) -> bytes:
        """Returns the content of what has come."""
        is_between = not (self._left or self._has_break or self._is_trailer)
        if is_between and not self._open and (size := _SIZE.match(data)) is not None:
            # Most often it is one chunk, and all of it.
            at, num_bytes = size.end(), int(size[1], 16)
            if num_bytes and len(data) == at + num_bytes + 2 and data.endswith(_BREAK):
                return data[at:-2]
        if self._open:
            data, self._open = self._open + data, b""
        pieces, at = list[bytes](), 0
        while at < len(data) and not self.is_complete:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._has_break = not self._left
            elif (after := self._pass_line(data, at)) is None:
                self._open = data[at:]
                if len(self._open) > MOST_LINE_BYTES:
                    raise NotHttpError("a line between chunks is too long")
                break
            else:
                at = after
        if self.is_complete:
            self.rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _pass_line(self, data: bytes, at: int) -> int | None:
        """Returns where the line ends; None if its end has not come."""
        if self._has_break or self._is_trailer:
            end = data.find(_BREAK, at)
            if self._has_break and not _BREAK.startswith(data[at : at + 2]):
                raise NotHttpError("a chunk is longer than it says")
            if end < 0:
                return None
            self.is_complete = self._is_trailer and end == at
            self._has_break = False
            return end + 2
        if (size := _SIZE.match(data, at)) is None:
            if b"\n" in data[at:]:
                raise NotHttpError(f"no size of a chunk: {data[at : at + 20]!r}")
            return None
        self._left = int(size[1], 16)
        self._is_trailer = not self._left
        return size.end()


def framing_of(head: Head, method: str) -> Framing:
    """Returns how the body after a head ends.

    Raises:
        NotHttpError: It could end in two places.
    """
    if method == "HEAD" or head.status in {204, 304}:
        return Sized(0)
    coding = [each.lower() for each in head.headers.getall("Transfer-Encoding", ())]
    lengths = set(head.headers.getall("Content-Length", ()))
    if coding:
        if coding != ["chunked"] or lengths:
            raise NotHttpError(f"a body of two kinds: {coding} and {lengths}")
        return Chunked()
    if not lengths:
        return Endless()
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
        raise NotHttpError(f"a body of no length: {length[:80]!r}")
    return Sized(int(length))
