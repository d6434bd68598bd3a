"""Reads the responses of a server, and judges whether they are in good form."""

import asyncio
import json
import re
from dataclasses import dataclass

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [A-Z][A-Za-z' -]*\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_MEDIA_TYPE = re.compile(rb"\r\ncontent-type: *([\w/+.-]+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)
_TOO_BUSY = {"overloaded", "pages_busy", "page_timeout"}
"""Codes of a 503 that only means that there is too much work."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status: int
    body: bytes
    closes: bool
    media_type: str = ""


async def read_response(reader: asyncio.StreamReader, *, is_head: bool) -> Response:
    """Reads one response.

    Raises:
        IncompleteReadError: The connection ended before it.
        LimitOverrunError: Its head is larger than the reader's limit.
        ValueError: It is not HTTP.
    """
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        match = _STATUS.match(head)
        if match is None:
            raise ValueError(f"not a response: {head[:100]!r}")
        status = int(match[1])
        if status >= 200:  # not a 100 Continue
            break
    closes = _CLOSES.search(head) is not None
    media = _MEDIA_TYPE.search(head)
    media_type = "" if media is None else media[1].decode().lower()
    if is_head or status in {204, 304}:
        return Response(status, b"", closes)
    if _CHUNKED.search(head):
        return Response(status, await _chunks(reader), closes, media_type)
    if (length := _LENGTH.search(head)) is not None:
        body = await reader.readexactly(int(length[1]))
        return Response(status, body, closes, media_type)
    return Response(status, await reader.read(), closes=True, media_type=media_type)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        found += await reader.readexactly(size)
        await reader.readexactly(2)
        if size == 0:
            return bytes(found)


def statuses(data: bytes) -> list[int]:
    """Returns the statuses of the responses in what a connection has returned."""
    return [int(each) for each in _STATUS.findall(data)]


def fault_of(response: Response, *, may_time_out: bool, is_head: bool) -> str | None:
    """Returns what is wrong with a response, or None."""
    if response.status < 400 or is_head:
        return None
    try:
        error = json.loads(response.body)["error"]
        message = error["message"]
        code = (
            error["code"] if "code" in error else error["type"]
        )  # Anthropic's errors have no code
    except (ValueError, KeyError, TypeError):
        return f"{response.status} without an error object: {response.body[:200]!r}"
    if response.status < 500 or (response.status == 503 and code in _TOO_BUSY):
        return None
    if response.status == 504 and may_time_out:
        return None
    return f"{response.status} {code}: {message[:200]}"
