"""Engines with the logger `kv_events`: a reader knows what they have cached."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zmq

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig
from hookline.exceptions import ConfigError
from hookline_cluster.config import ClusterConfig
from hookline_kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEventBatch,
)
from hookline_kv_events.config import KVEventsConfig, KVEventsSection
from hookline_testing.plugin_site import PluginSite

CONFIG = EngineConfig(
    cache=CacheConfig(block_size=4, num_kv_blocks=1024),
    executor=ExecutorConfig(name="simulated"),
)


def published(events: KVEventsConfig) -> dict[str, object]:
    return {"kv_events": KVEventsSection(publication=events)}


def config_with(events: KVEventsConfig, **given: object) -> EngineConfig:
    return replace(CONFIG, sections=published(events), **given)  # type: ignore[arg-type]


def replayed(endpoint: str) -> list[KVEventBatch]:
    """All batches that are kept; their numbers leave none out."""
    batches: list[KVEventBatch] = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as replay:
        replay.setsockopt(zmq.RCVTIMEO, 5000)
        replay.connect(endpoint)
        replay.send_multipart([b"", (0).to_bytes(8, "big")])
        while True:
            _, number, payload = replay.recv_multipart()
            if not payload:
                return batches
            assert int.from_bytes(number, "big") == len(batches)
            batches.append(msgspec.msgpack.decode(payload, type=KVEventBatch))


def index_of(batches: list[KVEventBatch]) -> set[int]:
    hashes: set[int] = set()
    for batch in batches:
        for event in batch.events:
            match event:
                case AllBlocksCleared():
                    hashes.clear()
                case BlockRemoved():
                    hashes.difference_update(event.block_hashes)
                case BlockStored():
                    hashes.update(event.block_hashes)
    return hashes


def documented_reader() -> Callable[[str], set[int]]:
    """The one of docs/kv_events.md."""
    page = (Path(__file__).parents[4] / "docs" / "kv_events.md").read_text("utf-8")
    source = page.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Callable[[str], set[int]]] = {}
    exec(compile(source, "docs/kv_events.md", "exec"), names)  # noqa: S102
    return names["cached_blocks"]


@pytest.mark.parametrize("in_process", [True, False])
def test_reader_knows_what_is_cached(tmp_path: Path, *, in_process: bool) -> None:
    """From another process, too; evictions and resets included."""
    endpoint = f"ipc://{tmp_path}/replay"
    events = KVEventsConfig(
        enable_kv_cache_events=True,
        endpoint=f"ipc://{tmp_path}/events",
        replay_endpoint=endpoint,
    )
    source = random.Random(5)  # noqa: S311 - a test
    prompts = [[source.randrange(3, 900) for _ in range(300)] for _ in range(20)]
    params = SamplingParams(max_tokens=4)
    with LLM.from_config(config_with(events, in_process=in_process)) as llm:
        for prompt in prompts:
            llm.generate([prompt], params)
        llm.front_end.observers.flush(5)
        batches = replayed(endpoint)
        index = index_of(batches)
        assert documented_reader()(endpoint) == index
        stats = llm.front_end.engines[0].stats
        llm.reset_prefix_cache()
        llm.generate([prompts[0]], params)
        llm.front_end.observers.flush(5)
        later = index_of(replayed(endpoint))

    assert isinstance(batches[0].events[0], AllBlocksCleared)
    assert any(isinstance(each.events[0], BlockRemoved) for each in batches)
    assert len(index) == stats.kv_blocks_cached
    assert len(later) == 75  # the last token was not computed
    assert batches[-1].data_parallel_rank == 0


def test_each_engine_publishes_its_own_cache(tmp_path: Path) -> None:
    """At an address of its own, under its rank, from its own batch 0 on."""
    events = KVEventsConfig(
        enable_kv_cache_events=True,
        endpoint=f"ipc://{tmp_path}/events",
        replay_endpoint=f"ipc://{tmp_path}/replay",
    )
    simulated = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        sections={
            "cluster": ClusterConfig(data_parallel_size=2),
            "kv_events": KVEventsSection(publication=events),
        },
    )
    greedy = SamplingParams(temperature=0.0, max_tokens=24)
    with LLM.from_config(simulated) as llm:
        llm.generate([[5] * 40, [6] * 80], greedy, use_tqdm=False)
        llm.flush()
        replays = [f"ipc://{tmp_path}/replay{suffix}" for suffix in ("", "_dp1")]
        batches = [replayed(each) for each in replays]
        cached = [each.stats.kv_blocks_cached for each in llm.front_end.engines]

    assert [{each.data_parallel_rank for each in own} for own in batches] == [{0}, {1}]
    stored = [
        sum(
            len(event.block_hashes)
            for batch in own
            for event in batch.events
            if isinstance(event, BlockStored)
        )
        for own in batches
    ]
    assert stored == cached
    assert all(cached)


def test_null_publishes_nothing(tmp_path: Path) -> None:
    """Other loggers hear of changes all the same."""
    events = KVEventsConfig.from_mapping(
        {"enable_kv_cache_events": True, "publisher": "null"}
    )
    config = config_with(events)
    with PluginSite(tmp_path) as other:
        other.install_recorder("other")
        observers = replace(config.observers, stat_loggers=("other",))
        with LLM.from_config(replace(config, observers=observers)) as llm:
            llm.generate([[3] * 9], SamplingParams(max_tokens=1))
            assert [lane.name for lane in llm.front_end.observers.lanes] == ["other"]
        assert "cache_changed" in [hook for hook, _ in other.calls("other")]


def test_logger_alone_is_a_mistake() -> None:
    """It is enabled by the option with its address."""
    observers = replace(CONFIG.observers, stat_loggers=("kv_events",))
    with pytest.raises(ConfigError, match="needs enable_kv_cache_events"):
        LLM.from_config(replace(CONFIG, observers=observers))


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"enable": True}, "unknown key 'enable'"),
        ({"enable_kv_cache_events": 1}, "true or false"),
        ({"publisher": "kafka"}, "publisher must be one of zmq, null"),
        ({"endpoint": "5557"}, "endpoint must begin with"),
        ({"endpoint": "tcp://*"}, "is not HOST:PORT"),
        ({"replay_endpoint": "tcp://*:x"}, "is not a port, 0 to 65535"),
        ({"hwm": 0}, "hwm must be at least 1"),
        ({"buffer_steps": True}, "buffer_steps must be a whole number"),
        ({"topic": 3}, "topic must be text"),
        ({"encoding": "json"}, "encoding must be one of array, map"),
    ],
)
def test_mistakes_are_one_line_errors(given: dict[str, object], detail: str) -> None:
    """Each in one line."""
    with pytest.raises(ConfigError, match=detail):
        KVEventsConfig.from_mapping(given)


def test_events_need_a_prefix_cache() -> None:
    """Without one nothing ever changes."""
    events = KVEventsConfig(enable_kv_cache_events=True)
    with pytest.raises(ConfigError, match="requires enable-prefix-caching"):
        config_with(events, cache=CacheConfig(enable_prefix_caching=False))
