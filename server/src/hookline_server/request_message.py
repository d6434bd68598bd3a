"""Reads a request's body as a message of the API."""

import asyncio
from typing import TypeVar

from aiohttp import web

from hookline.exceptions import RequestError
from hookline_server.context import HEAP, UNKNOWN_FIELDS
from hookline_server.protocol.body_structure import UNCHECKED_BYTES, check_structure
from hookline_server.protocol.lenient import with_numbers
from hookline_server.protocol.wire import decode
from hookline_server.request_body import read_body

T = TypeVar("T")

PEEKED: web.RequestKey[bytes] = web.RequestKey("hookline_peeked_body", bytes)
"""A body that was read to find out who handles it."""


async def peek_message(request: web.Request, kind: type[T]) -> T:
    """Returns some fields of the body, which is read once more later.

    It raises what `read_message` does.
    """
    request[PEEKED] = body = await _body(request)
    message = await _decoded(body, kind)
    await _others(body)
    return message


async def read_message(request: web.Request, kind: type[T]) -> T:
    """Returns the body as a struct of this kind; numbers may be strings.

    Raises:
        ApiError: The body cannot be read.
        HTTPRequestEntityTooLarge: It is too large.
        LimitError: It has too many values.
        RequestError: It is not JSON, or does not match the struct.
    """
    body = request.get(PEEKED) or await _body(request)
    message = await _decoded(body, kind)
    await _others(body)
    request.app[UNKNOWN_FIELDS].add(body, kind)
    return message


async def _body(request: web.Request) -> bytes:
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


async def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return decode(body, kind)
    except RequestError:
        await _others(body)
        converted = with_numbers(body, kind)
        if converted is None:
            raise
    await _others(body)
    return decode(converted, kind)


async def _others(body: bytes) -> None:
    """Lets other tasks run between two passes over a large body."""
    if len(body) > UNCHECKED_BYTES:
        await asyncio.sleep(0)
