"""Sends requests to a server at their arrival times."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass

import aiohttp

from hookline.exceptions import ConfigError
from hookline_bench.answer import Answer
from hookline_bench.client import Client
from hookline_bench.random_prompts import Prompt

RETRY_SECONDS = 1.0
MOST_REQUEST_SECONDS = 6 * 3600.0
KEEPALIVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The responses to a load."""

    answers: list[Answer]
    seconds: float


@asynccontextmanager
async def open_session(
    proxy: str | None = None,
) -> AsyncIterator[aiohttp.ClientSession]:
    """Opens a session without a limit of connections; `proxy` is a URL, if any."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=MOST_REQUEST_SECONDS),
        auto_decompress=True,
        proxy=proxy,
    ) as session:
        yield session


async def drive(
    client: Client,
    prompts: Sequence[Prompt],
    times: Sequence[float],
    *,
    max_concurrency: int | None = None,
    when_done: Callable[[], object] = lambda: None,
) -> Run:
    """Sends each prompt when it is due, and waits for all responses."""
    gate: AbstractAsyncContextManager[None] = (
        nullcontext() if max_concurrency is None else asyncio.Semaphore(max_concurrency)
    )

    async def ask(prompt: Prompt, due_at: float) -> Answer:
        async with gate:
            answer = await client.ask(prompt, due_at=due_at)
        when_done()
        return answer

    start = time.perf_counter()
    tasks: list[asyncio.Task[Answer]] = []
    async with asyncio.TaskGroup() as group:
        for prompt, at in zip(prompts, times, strict=True):
            due_at = start + at
            if (wait := due_at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(group.create_task(ask(prompt, due_at)))
    seconds = time.perf_counter() - start
    return Run(answers=[task.result() for task in tasks], seconds=seconds)


async def wait_until_ready(client: Client, prompt: Prompt, seconds: float) -> None:
    """Repeats a request until one succeeds.

    Raises:
        ConfigError: None succeeds in time.
    """
    last = "none"
    try:
        async with asyncio.timeout(seconds):
            while (answer := await client.ask(prompt)).error is not None:
                last = answer.error
                await asyncio.sleep(RETRY_SECONDS)
    except TimeoutError as error:
        detail = f"no successful response within {seconds:g} s; last error: {last}"
        raise ConfigError("base-url", detail) from error
