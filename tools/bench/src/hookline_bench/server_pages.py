"""What a server tells about itself."""

import asyncio
import time
from collections.abc import Mapping

import aiohttp
import msgspec

from hookline.exceptions import ConfigError

TIMEOUT = aiohttp.ClientTimeout(total=30)
RETRY_SECONDS = 1.0


class Card(msgspec.Struct, frozen=True):
    """A model that the server lists."""

    id: str


class Cards(msgspec.Struct, frozen=True):
    """All of them."""

    data: list[Card]


async def first_model(root: str, headers: Mapping[str, str], seconds: float) -> str:
    """The name of the first model that a server lists, once it does.

    Raises:
        ConfigError: It cannot be had in time.
    """
    url = f"{root}/v1/models"
    deadline = time.perf_counter() + seconds
    while True:
        try:
            cards = msgspec.json.decode(await _page(url, headers), type=Cards).data
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            if time.perf_counter() + RETRY_SECONDS > deadline:
                detail = f"must be given: {url} cannot be read: {error}"
                raise ConfigError("model", detail) from error
            await asyncio.sleep(RETRY_SECONDS)
            continue
        if not cards:
            raise ConfigError("model", f"must be given: {url} lists none")
        return cards[0].id


async def page_or_none(url: str, headers: Mapping[str, str]) -> str | None:
    """A page as text; None where the server has none."""
    try:
        return (await _page(url, headers)).decode("utf-8", "replace")
    except (aiohttp.ClientError, OSError):
        return None


async def _page(url: str, headers: Mapping[str, str]) -> bytes:
    async with (
        aiohttp.ClientSession(timeout=TIMEOUT, raise_for_status=True) as session,
        session.get(url, headers=headers) as response,
    ):
        return await response.read()
