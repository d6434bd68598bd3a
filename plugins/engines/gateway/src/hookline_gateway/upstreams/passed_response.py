"""A response that another server has made: head and body as they came."""

import time
from email.utils import formatdate
from functools import lru_cache

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from hookline_gateway.upstreams.connections.head import Head
from hookline_gateway.upstreams.headers import ID, Headers, answer_headers
from hookline_server.dialects import dialect_of
from hookline_server.request_identity import identity_of
from hookline_server.sse import sent_of

_WITHOUT_BODY = frozenset({204, 304})


class PassedResponse(web.StreamResponse):
    """Writes to the client's connection in the call in which something comes.

    aiohttp's own would wait for a turn of the event loop before each piece, and build
    the headers anew. Only the framing is this connection's own.

    Attributes:
        head: Status and headers as they came.
    """

    def __init__(self, request: web.Request, head: Head) -> None:
        """Sends nothing yet."""
        super().__init__(status=head.status, reason=head.reason)
        self.head = head
        self._request = request
        self._protocol = request.protocol
        self._transport = request.transport
        self._is_chunked = self._is_ended = False

    @property
    def keep_alive(self) -> bool:
        """Whether another request may follow on the connection."""
        return self._request.keep_alive and super().keep_alive is not False

    def start(self, first: bytes) -> None:
        """Sends the head and the first bytes of the body in one write."""
        head = self._head_bytes()
        # aiohttp would answer a fault of ours if it thought that nothing is sent.
        self._request.writer.output_size += len(head)
        self._sent = sent_of(self._request)
        self._sent.num_bytes += len(first)
        if self._transport is not None:
            self._transport.write(head + self._framed(first) if first else head)

    def pass_on(self, piece: bytes) -> bool:
        """Sends a piece of the body; returns whether the client keeps up."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        num_bytes = len(piece)
        if self._is_chunked:
            piece = b"%x\r\n%b\r\n" % (num_bytes, piece)
        transport.write(piece)
        self._sent.num_bytes += num_bytes
        return not self._protocol.writing_paused

    async def make_room(self) -> None:
        """Waits until the client has read what it was sent.

        Raises:
            ConnectionError: It has left.
        """
        begun = time.perf_counter()
        await self._request.writer.drain()
        self._sent.unread_seconds += time.perf_counter() - begun
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has left")

    # -- what aiohttp calls ------------------------------------------------------

    async def prepare(self, _: web.BaseRequest) -> AbstractStreamWriter | None:
        """Does nothing: the head is sent."""
        return None

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends a piece that is not the other server's."""
        if not self.pass_on(bytes(data)):
            await self.make_room()

    async def write_eof(self, data: bytes = b"") -> None:
        """Ends the body."""
        if self._is_ended:
            return
        self._is_ended = True
        if data:
            self.pass_on(data)
        if self._is_chunked and self._transport is not None:
            self._transport.write(b"0\r\n\r\n")
        await self.make_room()

    # -- its parts ---------------------------------------------------------------

    def _framed(self, piece: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self._is_chunked else piece

    def _head_bytes(self) -> bytes:
        request, head = self._request, self.head
        lines = [f"HTTP/1.1 {head.status} {head.reason}"]
        lines += [f"{name}: {value}" for name, value in self._headers_to_send()]
        is_new = request.version >= HttpVersion11
        length = head.headers.get("Content-Length", "")
        if length.isdecimal():
            lines.append(f"Content-Length: {length}")
        elif request.method != "HEAD" and head.status not in _WITHOUT_BODY:
            self._is_chunked = is_new
            if is_new:
                lines.append("Transfer-Encoding: chunked")
            else:
                self.force_close()
        if not self.keep_alive and is_new:
            lines.append("Connection: close")
        elif self.keep_alive and not is_new:
            lines.append("Connection: keep-alive")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")

    def _headers_to_send(self) -> Headers:
        headers = answer_headers(self.head.headers)
        request_id = identity_of(self._request).request_id
        if name := dialect_of(self._request).id_header:
            headers = [each for each in headers if each[0].lower() != name.lower()]
            headers.append((name, request_id))
        headers.append((ID, request_id))
        if "Date" not in self.head.headers:
            headers.append(("Date", _date(int(time.time()))))
        return headers


@lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)
