"""Reads a request's body, decoding gzip and deflate within the body's size limit."""

import asyncio
import zlib
from collections.abc import Mapping

from aiohttp import web

from hookline_server.api_error import ApiError
from hookline_server.connections.connection import BodyTimeoutError, Connection
from hookline_server.continuing import confirm

HANDLER_ARGS: Mapping[str, object] = {"auto_decompress": False}
"""An application's `handler_args`. aiohttp's own decoding answers a broken body with a
500 or in plain text, and also inflates bodies that nobody reads."""

_IDENTITY = {"", "identity"}
_GZIP = {"gzip", "x-gzip"}
_MAX_GZIP_MEMBERS = 16
_GZIP_BITS = 16 + zlib.MAX_WBITS


async def read_body(request: web.Request) -> bytes:
    """Returns the decoded body; for applications made with `HANDLER_ARGS`.

    Raises:
        ApiError: 400; the body does not match its Content-Encoding, or the encoding is
            not supported, or its transfer encoding is malformed.
        ApiError: 408; it came too slowly.
        HTTPRequestEntityTooLarge: The body is larger than `request.client_max_size`,
            as sent or decoded.
    """
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in {*_IDENTITY, *_GZIP, "deflate"}:
        raise ApiError(
            400,
            f"Content-Encoding {encoding!r} is not supported; "
            "use gzip, deflate or identity",
            code="invalid_request",
        )
    body = await read_raw(request)
    if encoding in _IDENTITY:
        return body
    limit = request.client_max_size
    try:
        decoded = await asyncio.to_thread(_decode, body, encoding, limit)
    except zlib.error as error:
        raise ApiError(
            400,
            f"the body is not valid {encoding} data: {error}",
            code="invalid_request",
        ) from error
    if len(decoded) > limit:
        raise web.HTTPRequestEntityTooLarge(limit, len(decoded))
    return decoded


async def read_raw(request: web.Request) -> bytes:
    """Reads the body as it was sent, within the connection's limits of time."""
    limit, connection = request.client_max_size, request.protocol
    if request.content_length is not None and request.content_length > limit:
        # Refused at once: the client waits for an answer, or never ends.
        raise web.HTTPRequestEntityTooLarge(limit, request.content_length)
    if not request.can_read_body:
        return b""
    await confirm(request)
    try:
        if request.content.is_eof() or not isinstance(connection, Connection):
            return await request.read()
        with connection.reading_body(request.content):
            return await request.read()
    except web.RequestPayloadError as error:
        raise ApiError(
            400,
            "the request's body is incomplete, or its chunks are malformed",
            code="invalid_request",
        ) from error
    except BodyTimeoutError as error:
        raise ApiError(
            408, "the request's body came too slowly", code="body_timeout"
        ) from error


def _decode(body: bytes, encoding: str, limit: int) -> bytes:
    """Decodes up to `limit` + 1 bytes; raises `zlib.error` if the data are broken."""
    bits = _GZIP_BITS if encoding in _GZIP else _deflate_bits(body)
    decoded = bytearray()
    for _ in range(_MAX_GZIP_MEMBERS):
        decoder = zlib.decompressobj(wbits=bits)
        decoded += decoder.decompress(body, limit + 1 - len(decoded))
        if len(decoded) > limit:
            return bytes(decoded)
        if not decoder.eof:
            raise zlib.error("it ends too early")
        body = decoder.unused_data
        if not body:
            return bytes(decoded)
    raise zlib.error(f"it has more than {_MAX_GZIP_MEMBERS} members")


def _deflate_bits(body: bytes) -> int:
    """Returns zlib's `wbits`: some clients omit the zlib header that HTTP requires."""
    has_zlib_header = body[:1] and body[0] & 0x0F == zlib.DEFLATED
    return zlib.MAX_WBITS if has_zlib_header else -zlib.MAX_WBITS
