"""Runs a coroutine beside a block of code, and no longer than that."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def in_background(
    work: Coroutine[None, None, T],
) -> AsyncIterator[asyncio.Task[T]]:
    """Runs `work` until the block ends, also if it raises or is cancelled.

    What `work` raises itself stays in the task.
    """
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
