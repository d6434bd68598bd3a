"""Measures what surrounds the data of a chunked body: sizes, extensions and trailers.

The parser skips extensions unseen, however long they are, and no limit of a body counts
them.
"""

from aiohttp import StreamReader, web

MOST_FRAMING_BYTES = 256 * 1024
"""Maximum bytes around a body besides as many as it has itself: enough for chunks of
one byte in a small body, and for what the parser holds back of a large one."""


class FramingError(web.RequestPayloadError):
    """A chunked body has too much around its data."""


class ChunkMeter:
    """Compares what arrives with what it carries; for one body."""

    __slots__ = ("_body", "_received")

    def __init__(self, body: StreamReader) -> None:
        """Measures a body from the next bytes on."""
        self._body = body
        self._received = 0

    def add(self, num_bytes: int) -> bool:
        """Counts bytes that were parsed; returns whether they were too many.

        Reading the body then raises `FramingError`.
        """
        body = self._body
        if body.is_eof():
            return False
        self._received += num_bytes
        if self._received - 2 * body.total_bytes <= MOST_FRAMING_BYTES:
            return False
        body.set_exception(FramingError())
        return True
