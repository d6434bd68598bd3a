"""A gateway in front of scripted instances, for tests."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.config.observers import ObserverConfig
from hookline_faults.scripted_instances import Client, FakeInstance
from hookline_gateway.app import create_gateway
from hookline_gateway.measuring.told import named
from hookline_gateway.settings import GatewaySettings

CHAT = "/v1/chat/completions"


def chunk(text: str = "", **more: object) -> bytes:
    """Returns an event of a chat with some text, and other fields of it."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return data({"choices": [choice], **more})


def data(value: object) -> bytes:
    """Returns an event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


ROLE = data({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
FINISH = data({"choices": [{"delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"


def usage(prompt: int, output: int, cached: int = 0) -> Mapping[str, object]:
    """Returns the usage of a completion."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def stream(*texts: str, used: Mapping[str, object] | None = None) -> list[bytes]:
    """Returns the events of a whole chat."""
    last = [] if used is None else [data({"choices": [], "usage": used})]
    return [ROLE, *map(chunk, texts), FINISH, *last, DONE]


class Numbers(dict[str, float]):
    """The samples of the gateway's page of metrics, by name and other labels."""

    def of(self, name: str, **labels: str) -> float | None:
        """Returns the sum of a family's samples with these labels; None without any."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = [
            value
            for key, value in self.items()
            if key.partition("{")[0] == f"hookline_{name}"
            and all(each in key for each in wanted)
        ]
        return sum(found) if found else None


async def numbers_of_gateway(client: Client) -> Numbers:
    """Returns the gateway's metrics."""
    page = await (await client.get("/metrics")).text()
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#"]
    return Numbers({name: float(value) for name, value in lines})


async def until_number(
    client: Client, name: str, value: float, **labels: str
) -> Numbers:
    """Waits until a family of the gateway's metrics has this value in sum."""
    async with asyncio.timeout(10):
        while True:
            numbers = await numbers_of_gateway(client)
            if numbers.of(name, **labels) == value:
                return numbers
            await asyncio.sleep(0.01)


@asynccontextmanager
async def gateway(
    *instances: FakeInstance,
    clock: Clock | None = None,
    observers: ObserverConfig | None = None,
    **options: object,
) -> AsyncIterator[Client]:
    """Yields a gateway's client; starts the instances that have no URL yet."""
    async with AsyncExitStack() as stack:
        for each in instances:
            if each.models is None:
                each.models = ["m"]
            if not each.url:
                await stack.enter_async_context(each.served())
        urls = [each.url for each in instances]
        yield await stack.enter_async_context(
            _client(urls, clock=clock, observers=observers, **options)
        )


@asynccontextmanager
async def _client(
    urls: Sequence[str],
    *,
    clock: Clock | None,
    observers: ObserverConfig | None,
    **options: object,
) -> AsyncIterator[Client]:
    settings = GatewaySettings(upstream=list(urls), **options)  # type: ignore[arg-type]
    observers = observers or ObserverConfig()
    observers = replace(
        observers,
        stat_loggers=("prometheus", *observers.options),
        # A busy machine may be late with what the page shows.
        page_wait_seconds=5.0,
    )
    config = named(EngineConfig(observers=observers))
    async with TestClient(TestServer(create_gateway(settings, config, clock))) as made:
        client: TestClient[web.Request, web.Application] = made
        yield client
