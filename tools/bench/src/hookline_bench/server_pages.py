"""Pages of the server under test."""

import asyncio
import os
import time
from collections.abc import Mapping

import aiohttp
import msgspec

from hookline.exceptions import ConfigError
from hookline_processes.proxies import proxy_for

TIMEOUT = aiohttp.ClientTimeout(total=30)
RETRY_SECONDS = 1.0


class Card(msgspec.Struct, frozen=True):
    """A model that the server lists."""

    id: str


class Cards(msgspec.Struct, frozen=True):
    """All of them."""

    data: list[Card]


async def first_model(root: str, headers: Mapping[str, str], seconds: float) -> str:
    """Returns the name of the first model that a server lists.

    Args:
        root: URL of the server.
        headers: Headers of the requests.
        seconds: How long to wait for a server that does not answer yet.

    Raises:
        ConfigError: The server does not answer in time, or lists no model.
    """
    url = f"{root}/v1/models"
    deadline = time.perf_counter() + seconds
    while True:
        try:
            cards = msgspec.json.decode(await _page(url, headers), type=Cards).data
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            left = deadline - time.perf_counter()
            if left <= 0:
                waited = f" after {seconds:g} s" if seconds else ""
                raise ConfigError(
                    "base-url", f"cannot read {url}{waited}: {_reason(error)}"
                ) from error
            await asyncio.sleep(min(RETRY_SECONDS, left))
            continue
        if not cards:
            raise ConfigError("model", f"is required: {url} lists none")
        return cards[0].id


async def page_or_none(url: str, headers: Mapping[str, str]) -> str | None:
    """Returns a page as text, or None if the server has no such page."""
    try:
        return (await _page(url, headers)).decode("utf-8", "replace")
    except (aiohttp.ClientError, OSError):
        return None


async def _page(url: str, headers: Mapping[str, str]) -> bytes:
    async with (
        aiohttp.ClientSession(timeout=TIMEOUT, raise_for_status=True) as session,
        session.get(url, headers=headers, proxy=proxy_for(url)) as response,
    ):
        return await response.read()


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    return str(error) or type(error).__name__
