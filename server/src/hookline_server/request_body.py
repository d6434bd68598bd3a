"""Reads a request's body, within limits of size and time, as a message of the API.

Gzip and deflate are decoded within the limit of size.
"""

import asyncio
import codecs
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TypeVar

import msgspec
from aiohttp import web

from hookline_metrics.front_end_parts import UnknownFieldStats
from hookline_server.api_error import ApiError
from hookline_server.connections.chunk_meter import FramingError
from hookline_server.connections.connection import BodyTimeoutError, Connection
from hookline_server.continuing import EXPECTED, confirm
from hookline_server.heap_trimmer import HEAP
from hookline_server.ignored import ignored_of
from hookline_server.protocol.body_structure import UNCHECKED_BYTES, check_structure
from hookline_server.protocol.lenient import with_numbers
from hookline_server.protocol.wire import MALFORMED, decode, request_error

T = TypeVar("T")

HANDLER_ARGS: Mapping[str, object] = {"auto_decompress": False}
"""An application's `handler_args`. aiohttp's own decoding answers a broken body with a
500 or in plain text, and also inflates bodies that nobody reads."""

PEEKED: web.RequestKey[bytes] = web.RequestKey("hookline_peeked_body", bytes)
"""A body that was read to find out who handles it."""

OTHER = "other"
MAX_NAMES = 31
"""Maximum names that are counted separately; further ones count as `other`."""
MAX_LENGTH = 64

_IDENTITY = {"", "identity"}
_GZIP = {"gzip", "x-gzip"}
_MAX_GZIP_MEMBERS = 16
_GZIP_BITS = 16 + zlib.MAX_WBITS
_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
_names_of = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnknownFields:
    """Fields of requests that the server does not know and ignores, by name."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, body: bytes, kind: type) -> Sequence[str]:
        """Counts the unknown fields of a body that was decoded as this struct.

        Returns:
            Their names, as far as they are counted one by one.
        """
        known = _names(kind)
        try:
            names = _names_of.decode(body)
        except UnicodeDecodeError:  # in a name: the struct's decoder skips it unread
            self._counts[OTHER] += 1
            return [OTHER]
        if known.issuperset(names):
            return ()
        unknown = [name for name in names if name not in known]
        for name in islice(unknown, MAX_NAMES):
            self._counts[self._label(name)] += 1
        if len(unknown) > MAX_NAMES:
            self._counts[OTHER] += len(unknown) - MAX_NAMES
        return unknown[:MAX_NAMES]

    def stats(self) -> UnknownFieldStats:
        """Totals since the start."""
        return UnknownFieldStats(fields=tuple(self._counts.items()))

    def _label(self, name: str) -> str:
        label = _UNUSUAL.sub("_", name[:MAX_LENGTH]) or "_"
        num_names = len(self._counts) - (OTHER in self._counts)
        return label if label in self._counts or num_names < MAX_NAMES else OTHER


UNKNOWN_FIELDS: web.AppKey[UnknownFields] = web.AppKey(
    "hookline_unknown_fields", UnknownFields
)


async def peek_message(request: web.Request, kind: type[T]) -> T:
    """Returns some fields of the body, which is read once more later.

    It raises what `read_message` does.
    """
    request[PEEKED] = body = await _checked_body(request)
    return await _message(body, kind)


async def read_message(request: web.Request, kind: type[T]) -> T:
    """Returns the body as a struct of this kind; numbers may be strings.

    Raises:
        ApiError: The body cannot be read.
        HTTPRequestEntityTooLarge: It is too large.
        LimitError: It has too many values.
        RequestError: It is not JSON, or does not match the struct.
    """
    body = request.get(PEEKED) or await _checked_body(request)
    message = await _message(body, kind)
    for name in request.app[UNKNOWN_FIELDS].add(body, kind):
        ignored_of(request).name("field", name)
    return message


async def _checked_body(request: web.Request) -> bytes:
    try:
        body = await read_body(request)
    except web.HTTPRequestEntityTooLarge:
        # It may have been read or decoded up to the limit.
        request.app[HEAP].add(request.client_max_size)
        raise
    if len(body) > UNCHECKED_BYTES:
        request.app[HEAP].add(len(body))
        await asyncio.to_thread(check_structure, body)
    return body


async def _message(body: bytes, kind: type[T]) -> T:
    """Decodes a body; others get their turns after each pass over a large one."""
    is_large = len(body) > UNCHECKED_BYTES
    try:
        message = msgspec.json.decode(body, type=kind)
    except MALFORMED as error:
        if is_large:
            await asyncio.sleep(0)
        converted = with_numbers(body, kind)
        if converted is None:
            raise request_error(error) from error
        if is_large:
            await asyncio.sleep(0)
        message = decode(converted, kind)
    if is_large:
        await asyncio.sleep(0)
    return message


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
        return body.removeprefix(codecs.BOM_UTF8)  # some programs begin with it
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
    return decoded.removeprefix(codecs.BOM_UTF8)


async def read_raw(request: web.Request) -> bytes:
    """Reads the body as it was sent, within the connection's limits of time."""
    limit, connection = request.client_max_size, request.protocol
    if request.content_length is not None and request.content_length > limit:
        # Refused at once: the client waits for an answer, or never ends.
        raise web.HTTPRequestEntityTooLarge(limit, request.content_length)
    if not request.can_read_body:
        return b""
    if EXPECTED in request:
        await confirm(request)
    try:
        if request.content.is_eof() and request.content.total_bytes <= limit:
            return request.content.read_nowait()  # all of it is here
        if request.content.is_eof() or not isinstance(connection, Connection):
            return await request.read()
        with connection.reading_body(request.content):
            return await request.read()
    except FramingError as error:
        raise ApiError(
            400,
            "the chunks of the request's body have far more extensions or trailers "
            "than data",
            code="invalid_request",
        ) from error
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


@cache
def _names(kind: type) -> frozenset[str]:
    """Returns the names of a struct's fields in JSON."""
    return frozenset(each.encode_name for each in msgspec.structs.fields(kind))
