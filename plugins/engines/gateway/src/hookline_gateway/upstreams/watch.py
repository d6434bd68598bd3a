"""Polls the instances' health and load."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

import aiohttp

from hookline.exceptions import ConfigError
from hookline_gateway.upstreams.asking import CANNOT_CONNECT, UPSTREAM_ERRORS
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.load import Load, read_load

LOOK_SECONDS = 5.0
"""Timeout of a page. A busy instance can be slow; only consecutive ones count."""

MOST_PAGE_BYTES = 8 * 1024 * 1024

logger = logging.getLogger(__name__)

Look = Callable[[Instance], Awaitable[None]]


@asynccontextmanager
async def watched(
    instances: Callable[[], Iterable[Instance]],
    look: Look,
    poll_seconds: float,
    changes: Callable[[], bool] | None = None,
) -> AsyncIterator[None]:
    """Polls the instances until the block ends.

    Args:
        instances: Returns those that there are.
        look: Polls one of them once.
        poll_seconds: Time between two polls.
        changes: Looks whether there are others now, which it may find out by a
            `ConfigError`, too: then they stay as they are. None if that never changes.
    """
    tasks: dict[Instance, asyncio.Task[None]] = {}

    def follow() -> None:
        now = set(instances())
        for gone in tasks.keys() - now:
            tasks.pop(gone).cancel()
        for each in now - tasks.keys():
            tasks[each] = asyncio.create_task(_watch(each, look, poll_seconds))

    async def follow_changes() -> None:
        complaint = ""
        while changes is not None:
            await asyncio.sleep(poll_seconds)
            try:
                if changes():
                    names = ", ".join(each.name for each in instances())
                    logger.info("the instances are: %s", names)
                    follow()
                    complaint = ""
            except ConfigError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    logger.error("the instances stay as they are: %s", complaint)  # noqa: TRY400

    follow()
    following = asyncio.create_task(follow_changes())
    try:
        yield
    finally:
        every = (following, *tasks.values())
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)


async def _watch(instance: Instance, look: Look, poll_seconds: float) -> None:
    while True:
        await look(instance)
        await asyncio.sleep(poll_seconds)


async def look(
    instance: Instance, session: aiohttp.ClientSession, key: str | None = None
) -> None:
    """Polls an instance once: its health, then its load, which `key` may open."""
    try:
        status, _ = await get_page(session, f"{instance.url}/health")
    except CANNOT_CONNECT as error:
        instance.lost(str(error))
        return
    except UPSTREAM_ERRORS as error:
        instance.failed(f"no response to a health check: {type(error).__name__}")
        return
    if status >= 500:
        instance.lost(f"status {status} of its health check", is_unready=True)
        return
    instance.recovered()
    instance.record_load(await _load(instance, session, key))


def bearer(key: str | None) -> Mapping[str, str]:
    """Returns the headers with a key, if there is one."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


async def _load(
    instance: Instance, session: aiohttp.ClientSession, key: str | None
) -> Load | None:
    try:
        status, page = await get_page(session, f"{instance.url}/metrics", bearer(key))
    except UPSTREAM_ERRORS:
        return None
    return read_load(page.decode("utf-8", "replace")) if status == 200 else None


async def get_page(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Returns the status and the body of a page, within limits of time and size.

    It raises `UPSTREAM_ERRORS`.
    """
    body = bytearray()
    async with (
        asyncio.timeout(LOOK_SECONDS),
        session.get(url, headers=headers) as response,
    ):
        while chunk := await response.content.readany():
            body += chunk
            if len(body) > MOST_PAGE_BYTES:
                break
        return response.status, bytes(body)
