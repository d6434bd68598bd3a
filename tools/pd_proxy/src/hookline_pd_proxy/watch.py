"""Polls the instances' health and load."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp

from hookline.exceptions import ConfigError
from hookline_pd_proxy.instance import Instance
from hookline_pd_proxy.instances_file import InstancesFile
from hookline_pd_proxy.load import Load, read_load
from hookline_pd_proxy.pool import Pools
from hookline_pd_proxy.upstream import CANNOT_CONNECT, UPSTREAM_ERRORS

LOOK_SECONDS = 5.0
"""Timeout of a page. A busy instance can be slow; only consecutive ones count."""

MOST_PAGE_BYTES = 8 * 1024 * 1024

logger = logging.getLogger(__name__)


@asynccontextmanager
async def watched(
    pools: Pools,
    session: aiohttp.ClientSession,
    poll_seconds: float,
    key: str | None = None,
    file: InstancesFile | None = None,
) -> AsyncIterator[None]:
    """Polls the instances until the block ends.

    Args:
        pools: The instances.
        session: What to ask them with.
        poll_seconds: Time between two polls.
        key: Opens their metrics.
        file: Says which instances there are; None if that does not change.
    """
    tasks: dict[Instance, asyncio.Task[None]] = {}

    def follow() -> None:
        for gone in tasks.keys() - set(pools.instances):
            tasks.pop(gone).cancel()
        for each in set(pools.instances) - tasks.keys():
            watching = _watch(each, session, poll_seconds, key)
            tasks[each] = asyncio.create_task(watching)

    follow()
    following = asyncio.create_task(_follow(file, pools, poll_seconds, follow))
    try:
        yield
    finally:
        every = (following, *tasks.values())
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)


async def _follow(
    file: InstancesFile | None,
    pools: Pools,
    poll_seconds: float,
    changed: Callable[[], None],
) -> None:
    complaint = ""
    while file is not None:
        await asyncio.sleep(poll_seconds)
        try:
            if file.apply(pools):
                names = ", ".join(each.name for each in pools.instances)
                logger.info("the instances are: %s", names)
                changed()
                complaint = ""
        except ConfigError as error:
            if str(error) != complaint:
                complaint = str(error)
                logger.error("the instances stay as they are: %s", complaint)  # noqa: TRY400


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
