"""Engines with a model: tokens are the oracle's, however often blocks are evicted."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.cache_facts import CacheFacts
from hookline.config import (
    CacheConfig,
    Dtype,
    EngineConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kv_transfer import KVTransferConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import make_oracle
from hookline_testing.plugin_site import PluginSite

FAMILIES = ("llama", "mistral", "gemma2")
"""Grouped heads in all; a sliding window in the second, in some layers of the third."""
OUTPUT_TOKENS = 6
GREEDY = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS)
TRANSFER = KVTransferConfig(
    kv_connector="offload", kv_connector_extra_config={"cpu_bytes_to_use": 2**21}
)


def prompts() -> list[list[int]]:
    source = random.Random(3)  # noqa: S311 - a test
    return [[source.randrange(320) for _ in range(n)] for n in (40, 33, 57, 48, 21)]


@pytest.fixture
def offload(tmp_path: Path) -> Iterator[None]:
    """The connector, installed as `offload`."""
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        source = "from hookline_cpu_offload import create_kv_connector\n"
        site.install("offload", source, group="hookline.connectors")
        yield


def config_for(folder: Path, dtype: Dtype = Dtype.FLOAT32) -> EngineConfig:
    """A pool of hardly more than a prompt, so that each evicts the one before it."""
    return EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=64, dtype=dtype),
        cache=CacheConfig(block_size=4, num_kv_blocks=17),
        scheduler=SchedulerConfig(max_num_seqs=2),
        kv_transfer=TRANSFER.section(),
    )


@pytest.fixture(autouse=True)
def _no_calls_between_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector spares steps what others cost them."""
    monkeypatch.delattr(PagedCache, "call_around")


@pytest.mark.usefixtures("offload")
@pytest.mark.parametrize("async_scheduling", [False, True])
@pytest.mark.parametrize("family", essential(FAMILIES, "mistral", slow=FAMILIES))
def test_tokens_are_the_oracles(
    tmp_path: Path, family: str, *, async_scheduling: bool
) -> None:
    """Twice over: the second time nearly all of a prompt comes from memory."""
    oracle = make_oracle(family, tmp_path)
    expected = [oracle.greedy(prompt, OUTPUT_TOKENS) for prompt in prompts()]
    config = config_for(tmp_path)
    schedule = replace(config.scheduler, async_scheduling=async_scheduling)

    with LLM.from_config(replace(config, scheduler=schedule)) as llm:
        for _ in range(2):
            found = llm.generate(prompts(), GREEDY)
            assert [each.outputs[0].token_ids for each in found] == expected
        stats = llm.front_end.engines[0].stats
        assert_conserved(llm)

    assert transfers_of(stats).failures == {}
    assert transfers_of(stats).tiers["cpu"].hit_tokens > 150


@pytest.mark.usefixtures("offload")
def test_bfloat16_survives_a_round_trip(tmp_path: Path) -> None:
    """To the bit: as if the blocks had never left the cache."""
    make_oracle("llama", tmp_path)
    params = SamplingParams(temperature=0.0, max_tokens=OUTPUT_TOKENS, logprobs=1)
    small = config_for(tmp_path, Dtype.BFLOAT16)
    roomy = CacheConfig(block_size=4, num_kv_blocks=256)
    large = replace(small, cache=roomy, kv_transfer=None)
    found = []

    for config in (small, large):
        with LLM.from_config(config) as llm:
            told = []
            for prompt in prompts() * 2:
                [output] = llm.generate([prompt], params)
                told.append(output.outputs[0])
            found.append([(each.token_ids, each.logprobs) for each in told])
            cached = transfers_of(
                llm.front_end.engines[0].stats
            ).external_cache.hit_tokens

    assert cached == 0  # of the second one
    assert found[0] == found[1]


@pytest.mark.usefixtures("offload")
def test_facts_name_window_and_host_memory(tmp_path: Path) -> None:
    """What is known before any request is what the tier reports later."""
    make_oracle("mistral", tmp_path)

    with LLM.from_config(config_for(tmp_path)) as llm:
        engine = llm.front_end.engines[0]
        facts = engine.facts
        llm.generate(prompts()[:1], GREEDY)
        tier = transfers_of(engine.stats).tiers["cpu"]

    assert facts.cache == CacheFacts(
        configured_blocks=17,
        connector="offload",
        host_blocks=tier.max_blocks,
        host_bytes=tier.max_bytes,
    )
    assert facts.model.sliding_window == 12
    assert 0 < facts.cache.host_bytes <= 2**21
