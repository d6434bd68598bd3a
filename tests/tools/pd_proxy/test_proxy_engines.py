"""A route before real engines, which give each other KV."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
    ObserverConfig,
    SchedulerConfig,
)
from hookline_faults.scripted_instances import FakeInstance, numbers_of, routed
from hookline_kv_transfer import KVRole, KVTransferConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_server.app import create_app
from hookline_server.cli.metrics_tools.page import PageSample, read_page
from hookline_server.settings import ServerSettings
from hookline_server.texts.engine import TextEngine
from hookline_testing.essential import essential
from hookline_testing.oracle import make_oracle

pytestmark = pytest.mark.slow

PROMPTS = [
    "def read_lines(path):\n    " * 8,
    "class Route:\n    def choose(self, instances):\n" * 4,
    "import os\n\n\ndef main(arguments: list[str]) -> int:\n" * 4,
    "x",
]
"""A token a byte, and room for the answers."""
BODY = {"model": "tiny", "max_tokens": 24, "temperature": 0}


@dataclass
class Instances:
    """One without a connector, one for prefill, one for decode; a client of a route."""

    engines: list[TextEngine]
    urls: list[FakeInstance]
    client: TestClient[Any, Any]


def config(
    role: KVRole | None, connector: str, model: Path, folder: Path
) -> EngineConfig:
    own: dict[str, dict[str, object]] = {
        "shared_storage": {"shared_storage_path": str(folder)}
    }
    transfer = KVTransferConfig(
        kv_connector=connector,
        kv_role=role or KVRole.BOTH,
        kv_connector_extra_config=own.get(connector, {}),
    )
    return EngineConfig(
        model=ModelConfig(model=str(model), served_model_name="tiny"),
        cache=CacheConfig(num_kv_blocks=256),
        scheduler=SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=64),
        observers=ObserverConfig(stat_loggers=("prometheus",)),
        kv_transfer=None if role is None else transfer.section(),
        in_process=True,
    )


@asynccontextmanager
async def served(connector: str, folder: Path) -> AsyncIterator[Instances]:
    model = folder / "model"
    make_oracle("llama", model)
    async with AsyncExitStack() as stack:
        engines: list[TextEngine] = []
        urls: list[FakeInstance] = []
        for role in (None, KVRole.PRODUCER, KVRole.CONSUMER):
            engine = await TextEngine.start(config(role, connector, model, folder))
            stack.push_async_callback(engine.close)
            server = TestServer(create_app(engine, ServerSettings()))
            await stack.enter_async_context(server)
            engines.append(engine)
            place = FakeInstance()
            place.url = str(server.make_url("")).rstrip("/")
            urls.append(place)
        client = await stack.enter_async_context(routed([urls[1]], [urls[2]]))
        yield Instances(engines, urls, client)


async def text(client: TestClient[Any, Any], prompt: str) -> str:
    response = await client.post("/v1/completions", json={**BODY, "prompt": prompt})
    answer = await response.json()
    assert response.status == 200, answer
    return str(answer["choices"][0]["text"])


@pytest.mark.parametrize("connector", essential(["p2p", "shared_storage"], "p2p"))
async def test_tokens_are_those_of_one_engine(connector: str, tmp_path: Path) -> None:
    """The answers are a plain engine's, and the decode instance loads their prompts."""
    async with served(connector, tmp_path) as instances:
        async with routed([], instances.urls[:1]) as plain:
            expected = [await text(plain, prompt) for prompt in PROMPTS]
        asking = (text(instances.client, prompt) for prompt in PROMPTS)
        found = await asyncio.gather(*asking)
        numbers = await numbers_of(instances.client)
        stats = instances.engines[-1]._front_end.engines[0].stats

    assert found == expected
    assert numbers["prefill_seconds_count"] == len(PROMPTS)
    assert not [name for name in numbers if "fallbacks" in name]
    assert transfers_of(stats).failures == {}
    # All but the last tokens of each long prompt, which fill no block.
    assert (
        transfers_of(stats).transferred_tokens
        > 0.8 * transfers_of(stats).external_cache.queried_tokens
    )


async def usage(client: TestClient[Any, Any], prompt: str) -> tuple[int, int]:
    """The prompt's tokens, and those that were cached."""
    response = await client.post("/v1/completions", json={**BODY, "prompt": prompt})
    told = (await response.json())["usage"]
    return told["prompt_tokens"], told["prompt_tokens_details"]["cached_tokens"]


async def counted(url: str, name: str, labels: str = "") -> float:
    """The sum of a family's samples with these labels, once there are any."""
    async with asyncio.timeout(60):
        while True:
            found = [
                each.value
                for each in await page_of(url)
                if each.name == name and labels in ({"", *each.labels.values()})
            ]
            if any(found):
                return sum(found)
            await asyncio.sleep(0.01)


async def test_accounts_of_both_instances_are_those_of_one_request(
    tmp_path: Path,
) -> None:
    """What was transferred is not cached, and a success and its TTFT count once."""
    async with served("p2p", tmp_path) as instances:
        prefill, decode = (each.url for each in instances.urls[1:])
        first = await usage(instances.client, PROMPTS[0])
        again = await usage(instances.client, PROMPTS[0])
        finished = "hookline_requests_finished_total"
        ends = [
            await counted(prefill, finished, "prefilled"),
            await counted(prefill, finished),
            await counted(decode, finished, "length"),
            await counted(decode, finished),
        ]
        ttft = "hookline_time_to_first_token_seconds_count"
        observed = await counted(decode, ttft)
        stats = instances.engines[1]._front_end.engines[0].stats
        page = await page_of(prefill)

    assert first[1] == 0
    assert 0 < again[1] < again[0]
    assert ends == [2, 2, 2, 2]
    assert observed == 2
    assert sum(each.value for each in page if each.name == ttft) == 0
    assert transfers_of(stats).held_blocks == 0


async def page_of(url: str) -> Sequence[PageSample]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/metrics") as response,
    ):
        return read_page(await response.text(), url).samples
