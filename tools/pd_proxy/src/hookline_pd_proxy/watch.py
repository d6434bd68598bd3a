"""Polls the instances' health and load."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import aiohttp

from hookline_pd_proxy.instance import Instance
from hookline_pd_proxy.load import Load, read_load
from hookline_pd_proxy.upstream import CANNOT_CONNECT, UPSTREAM_ERRORS

LOOK_SECONDS = 5.0
"""Timeout of a page. A busy instance can be slow; only consecutive ones count."""

MOST_PAGE_BYTES = 8 * 1024 * 1024


@asynccontextmanager
async def watched(
    instances: Iterable[Instance],
    session: aiohttp.ClientSession,
    poll_seconds: float,
    key: str | None = None,
) -> AsyncIterator[None]:
    """Polls the instances until the block ends; `key` opens their metrics."""
    tasks = [
        asyncio.create_task(_watch(each, session, poll_seconds, key))
        for each in instances
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(
    instance: Instance,
    session: aiohttp.ClientSession,
    poll_seconds: float,
    key: str | None,
) -> None:
    while True:
        await look(instance, session, key)
        await asyncio.sleep(poll_seconds)


async def look(
    instance: Instance, session: aiohttp.ClientSession, key: str | None = None
) -> None:
    """Polls an instance once: its health, then its load."""
    try:
        status, _ = await _get(session, f"{instance.url}/health")
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


async def _load(
    instance: Instance, session: aiohttp.ClientSession, key: str | None
) -> Load | None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        status, page = await _get(session, f"{instance.url}/metrics", headers)
    except UPSTREAM_ERRORS:
        return None
    return read_load(page.decode("utf-8", "replace")) if status == 200 else None


async def _get(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
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
