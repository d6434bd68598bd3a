"""Metrics of an engine with a model, host memory and a disk: nothing is lost."""

import random
from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ModelConfig,
    ObserverConfig,
    SchedulerConfig,
)
from hookline_kv_transfer import KVTransferConfig
from hookline_metrics import Family, HistogramValue
from hookline_metrics.config import MetricsConfig
from hookline_testing.oracle import make_oracle

BLOCK_SIZE = 4
OWN = "hookline_kv_tier"
VLLM = "vllm:kv_offload"

Numbers = dict[tuple[str, ...], float | HistogramValue]


def config_for(folder: Path, disk: Path) -> EngineConfig:
    """A pool of hardly more than a prompt, and memory for hardly more than two."""
    extra = {"cpu_bytes_to_use": 2**16, "disk": {"path": str(disk)}}
    return EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=64),
        cache=CacheConfig(block_size=BLOCK_SIZE, num_kv_blocks=17),
        scheduler=SchedulerConfig(max_num_seqs=2),
        observers=ObserverConfig(stat_loggers=()),
        sections={"metrics": MetricsConfig(dialects=("hookline", "vllm"))},
        kv_transfer=KVTransferConfig(
            kv_connector="cpu_offload", kv_connector_extra_config=extra
        ).section(),
    )


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    """After five prompts, three times over."""
    folder = tmp_path_factory.mktemp("offloaded")
    make_oracle("llama", folder)
    source = random.Random(3)  # noqa: S311 - a test
    prompts = [[source.randrange(320) for _ in range(n)] for n in (40, 33, 57, 48, 21)]
    config = config_for(folder, folder / "disk")

    with LLM.from_config(config) as llm:
        for _ in range(3):
            llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=6))
        assert llm.flush()
        return {family.name: family for family in llm.get_metrics()}


def numbers(family: Family) -> Numbers:
    """The family's samples by its own labels."""
    return {sample.labels[2:]: sample.value for sample in family.samples}


def number(family: Family) -> float:
    [value] = numbers(family).values()
    assert isinstance(value, float | int)
    return value


def sums(family: Family) -> dict[tuple[str, ...], float]:
    """The sums of a family's histograms by its own labels."""
    return {
        labels: value.sum
        for labels, value in numbers(family).items()
        if not isinstance(value, float | int)
    }


def nonzero(family: Family) -> Numbers:
    return {labels: value for labels, value in numbers(family).items() if value}


def test_sizes_of_moves_add_up_to_the_moved_bytes(
    families: dict[str, Family],
) -> None:
    """By tier and direction, all four of which occur."""
    moved = nonzero(families[f"{OWN}_moved_bytes"])

    assert len(moved) == 4
    assert sums(families[f"{OWN}_move_size_bytes"]) == moved


def test_times_of_copies_add_up_to_the_moved_seconds(
    families: dict[str, Family],
) -> None:
    """Copies of memory wait for no thread."""
    moved = numbers(families[f"{OWN}_moved_seconds"])
    times = sums(families[f"{OWN}_move_duration_seconds"])

    for direction in ("in", "out"):
        expected = pytest.approx(moved["cpu", direction])
        assert times["cpu", direction, "success"] == expected


def test_asked_room_is_stored_or_dropped(families: dict[str, Family]) -> None:
    """Each block that host memory was to keep is there, or there was no room."""
    [(_, num_blocks, block_bytes, tokens)] = [
        labels for labels in numbers(families[f"{OWN}_info"]) if labels[0] == "cpu"
    ]
    stored = numbers(families[f"{OWN}_moved_bytes"])["cpu", "in"]
    dropped = numbers(families[f"{OWN}_dropped_blocks"])["cpu", "no_room"]
    assert isinstance(stored, float)
    assert isinstance(dropped, float)

    asked = sums(families[f"{OWN}_allocation_blocks"])["cpu",]

    assert asked == stored / int(block_bytes) + dropped
    assert int(tokens) == int(num_blocks) * BLOCK_SIZE


@pytest.mark.parametrize(("kind", "direction"), [("store", "in"), ("load", "out")])
def test_vllms_names_have_the_same_numbers(
    families: dict[str, Family], kind: str, direction: str
) -> None:
    """Those of host memory, under its newer and its older names."""
    own = numbers(families[f"{OWN}_moved_bytes"])["cpu", direction]
    older = {"in": "GPU_to_CPU", "out": "CPU_to_GPU"}[direction]

    assert number(families[f"{VLLM}_{kind}_bytes"]) == own
    assert list(sums(families[f"{VLLM}_{kind}_size"]).values()) == [own]
    assert numbers(families[f"{VLLM}_total_bytes"])[(older,)] == own
    assert sums(families[f"{VLLM}_size"])[(older,)] == own


def test_vllms_tiers_have_the_same_numbers(families: dict[str, Family]) -> None:
    """Host memory is the primary tier, and the disk the first secondary one."""
    moved = numbers(families[f"{OWN}_moved_bytes"])
    looked_up = numbers(families[f"{OWN}_lookup_tokens"])
    tiers = {"cpu": "0:primary", "disk": "1:fs"}

    for name, direction in (("write", "in"), ("read", "out")):
        told = numbers(families[f"{VLLM}_tiering_{name}_bytes"])
        assert told == {("1:fs",): moved["disk", direction]}
    hits = numbers(families[f"{VLLM}_tiering_chunk_hits"])
    assert {tiers[tier]: hits[tiers[tier],] for tier in tiers} == {
        tiers[tier]: value / BLOCK_SIZE
        for (tier, result), value in looked_up.items()
        if result == "hit" and isinstance(value, float)
    }
    promotions = sums(families[f"{VLLM}_tiering_promotion_latency_seconds"])
    assert set(promotions) == {("1:fs", "success")}


def test_every_lookup_is_timed(families: dict[str, Family]) -> None:
    """As a whole, and in each tier that was asked."""
    [whole] = numbers(families["hookline_kv_transfer_lookup_seconds"]).values()
    tiers = numbers(families[f"{OWN}_lookup_seconds"])
    assert not isinstance(whole, float | int)

    for tier in ("cpu", "disk"):
        part = tiers[tier,]
        assert not isinstance(part, float | int)
        assert 0 < part.count <= whole.count
        assert 0 < part.sum <= whole.sum


@pytest.mark.parametrize("name", ["failed_moves", "moves_in_flight", "moving_ratio"])
def test_nothing_has_failed_and_memory_rests(
    families: dict[str, Family], name: str
) -> None:
    """The disk may still be written to."""
    found = numbers(families[f"{OWN}_{name}"])

    memory = {labels: value for labels, value in found.items() if labels[0] == "cpu"}
    assert set(memory.values()) == {0}
