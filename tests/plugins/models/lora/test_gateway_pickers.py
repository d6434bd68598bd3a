"""Gateways that route by adapter find what they read, by their documented rules.

The Gateway API inference extension and llm-d read a server's adapters from the labels
of one metric: lists with commas, of the sample whose value is the largest. They prefer
servers that run the adapter, then those with room for one more, then those at which it
waits. llm-d's scorer of residency prefers slots to memory, and that to a free slot.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline.pages import PageRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics.adapters import (
    LORA,
    AdapterCounts,
    AdapterLevel,
    AdapterResidence,
    LoraNews,
    LoraStats,
)
from hookline_metrics.config import MetricsConfig
from hookline_prometheus import PrometheusLogger
from hookline_testing.payloads import FACTS, make_started, make_state

RUNS, WAITS = AdapterCounts(running=1), AdapterCounts(loading=1)
BOTH = AdapterCounts(running=2, queued=1)
NOW = 1_790_000_000

Samples = dict[str, list[tuple[dict[str, str], float]]]


class Server:
    """A server with engines, as a gateway sees it."""

    def __init__(self, num_engines: int = 1) -> None:
        metrics = MetricsConfig(dialects=("vllm",), max_adapter_labels=3)
        config = EngineConfig(extensions={LORA: {}}, sections={"metrics": metrics})
        clock = VirtualClock(start=NOW * NANOSECONDS)
        self.logger = PrometheusLogger(config, clock=clock)
        for index in range(num_engines):
            facts = dataclasses.replace(FACTS, engine_index=index)
            self.logger.engine_started(make_started(facts))

    def show(
        self,
        slots: int,
        adapters: Mapping[str, AdapterCounts],
        residency: Mapping[str, AdapterResidence] | None = None,
        *,
        engine: int = 0,
    ) -> None:
        """An engine tells its adapters."""
        told = dict(residency or {})
        used = sum(each.level is AdapterLevel.SLOT for each in told.values())
        stats = LoraStats(
            slots=slots, slots_used=used, in_memory=len(told), adapters=adapters
        )
        news = IterationStats(sections={LORA: LoraNews(residency=told)})
        state = make_state(news, SchedulerStats(sections={LORA: stats}))
        self.logger.state_changed(dataclasses.replace(state, engine_index=engine))

    def scraped(self) -> Samples:
        """The samples of a page, as a scraper parses them."""
        answer = self.logger.page(PageRequest(headers={}, query={}))
        found: Samples = {}
        for family in text_string_to_metric_families(answer.body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


class Seen(NamedTuple):
    """What a gateway knows of a server."""

    active: set[str]
    waiting: set[str]
    most: int


def seen(server: Server) -> Seen:
    """Reads the adapters as gateways do: from the sample with the largest value."""
    labels, _ = max(server.scraped()["vllm:lora_requests_info"], key=lambda it: it[1])
    active, waiting = (
        {name for name in labels[key].split(",") if name}
        for key in ("running_lora_adapters", "waiting_lora_adapters")
    )
    return Seen(active, waiting, int(labels["max_lora"]))


def affinity(server: Server, adapter: str) -> float:
    """Scores a server by the adapters that it runs, has room for, or queues."""
    active, waiting, most = seen(server)
    if adapter in active:
        return 1.0
    if len(active) + len(waiting) < most:
        return 0.8
    return 0.6 if adapter in waiting else 0.0


def residence(server: Server, adapter: str) -> float:
    """Scores a server by where it has the adapter, else by its free slots."""
    samples = server.scraped()
    levels = {
        labels["level"]
        for labels, value in samples.get("vllm:lora_adapter_loaded", [])
        if labels["adapter_name"] == adapter and value
    }
    if levels:
        return 1.0 if "gpu" in levels else 0.7
    used, slots = (
        sum(value for _, value in samples[f"vllm:{name}"])
        for name in ("num_gpu_loaded_lora_adapters", "max_gpu_lora_adapters")
    )
    return 0.6 if used < slots else 0.0


def loaded(level: AdapterLevel) -> AdapterResidence:
    return AdapterResidence(level, is_pinned=False, rank=16)


@pytest.mark.parametrize(
    ("adapters", "score"),
    [
        ({"legal": RUNS, "sql": RUNS}, 1.0),
        ({"legal": BOTH, "sql": WAITS}, 1.0),
        ({}, 0.8),
        ({"sql": RUNS}, 0.8),
        ({"legal": WAITS}, 0.8),
        ({"sql": RUNS, "legal": WAITS}, 0.6),
        ({"sql": RUNS, "chat": RUNS}, 0.0),
        ({"sql": RUNS, "chat": WAITS}, 0.0),
    ],
)
def test_affinity_is_what_the_server_does(
    adapters: Mapping[str, AdapterCounts], score: float
) -> None:
    """Of two slots: running, room, waiting and full servers score as they should."""
    server = Server()

    server.show(2, adapters)

    assert affinity(server, "legal") == score


def test_a_running_adapter_does_not_also_wait() -> None:
    """It is in both lists only while some of its requests wait."""
    server = Server()

    server.show(4, {"legal": RUNS, "sql": BOTH, "chat": WAITS})

    assert seen(server) == ({"legal", "sql"}, {"sql", "chat"}, 4)


def test_there_is_one_series_and_it_is_the_latest() -> None:
    """Whatever came before, and however many engines there are; its value is now."""
    server = Server(num_engines=2)

    server.show(2, {"legal": RUNS}, engine=0)
    server.show(2, {"sql": RUNS, "legal": WAITS}, engine=1)
    server.scraped()
    server.show(2, {"chat": RUNS}, engine=0)

    [(labels, value)] = server.scraped()["vllm:lora_requests_info"]
    assert labels == {
        "model_name": "demo",
        "max_lora": "4",
        "running_lora_adapters": "chat,sql",
        "waiting_lora_adapters": "legal",
    }
    assert value == NOW


def test_residency_is_seen_without_requests() -> None:
    """An idle adapter is found where it is, until it is gone."""
    server = Server()
    places = {
        "legal": loaded(AdapterLevel.SLOT),
        "sql": loaded(AdapterLevel.MEMORY),
        "old": loaded(AdapterLevel.DISK),
    }

    server.show(2, {}, places)
    before = [residence(server, name) for name in ("legal", "sql", "old")]
    server.show(2, {}, {"sql": loaded(AdapterLevel.SLOT), "chat": places["legal"]})
    after = [residence(server, name) for name in ("legal", "sql", "old")]

    assert before == [1.0, 0.7, 0.6]
    assert after == [0.0, 1.0, 0.0]


HOSTILE = [
    'a"} 1\nvllm:num_requests_running 99',
    "back\\slash",
    "line\nfeed",
    "\x00\x1b[31m",
    "\u202egnp.exe",
    "x" * 10_000,
    "none",
    "other",
    "",
    '{"a": 1}',
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_in_their_label(name: str) -> None:
    """A page parses, has no sample that a name forges, and stays short."""
    server = Server()

    server.show(2, {name: RUNS, "legal": RUNS}, {name: loaded(AdapterLevel.SLOT)})

    samples = server.scraped()
    assert [value for _, value in samples["vllm:num_requests_running"]] == [0]
    assert "legal" in seen(server).active
    assert len(samples["vllm:lora_adapter_loaded"]) == 1
    told = [*samples["vllm:lora_requests_info"], *samples["vllm:lora_adapter_loaded"]]
    assert all(len(value) < 1024 for labels, _ in told for value in labels.values())


def test_a_comma_in_a_name_makes_no_other_name() -> None:
    """A gateway does not take one adapter for another that it has not."""
    server = Server()

    server.show(2, {"chat,legal": RUNS})

    assert seen(server).active == {"chat%2Clegal"}
    assert affinity(server, "legal") != 1.0


def test_residency_has_a_bounded_number_of_names() -> None:
    """Further adapters are one series for each level and rank."""
    server = Server()
    places = {f"a{number}": loaded(AdapterLevel.SLOT) for number in range(500)}

    server.show(500, {}, places)

    found = server.scraped()["vllm:lora_adapter_loaded"]
    assert {labels["adapter_name"]: value for labels, value in found} == {
        **{f"a{number}": 1 for number in range(3)},
        "other": 497,
    }
