"""A core with a real model: how it started, and the forward time of its steps."""

from collections.abc import Iterator

import pytest

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine_setup.building import build_core
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import engine_request, run_to_end

PHASES = [
    "start engine",
    "import torch",
    "import model code",
    "init device",
    "read config",
    "load weights",
    "probe",
    "adapt model",
    "allocate KV cache",
    "warm up",
]


def core_of(llama: Oracle, cache: CacheConfig) -> EngineCore:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=cache,
        scheduler=SchedulerConfig(max_num_seqs=2, max_num_batched_tokens=32),
    )
    return build_core(config, SystemClock())


@pytest.fixture(scope="module")
def core(llama: Oracle) -> Iterator[EngineCore]:
    core = core_of(llama, CacheConfig(num_kv_blocks=32))
    yield core
    core.close()


def test_phases_of_the_start_follow_each_other(core: EngineCore) -> None:
    """Each begins after the one before, and all lie within the whole."""
    whole, *parts = core.facts.startup

    assert [phase.name for phase in core.facts.startup] == PHASES
    end = whole.started_at
    for phase in parts:
        assert phase.started_at >= end - 1
        end = phase.started_at + round(phase.seconds * NANOSECONDS)
    assert end <= whole.started_at + round(whole.seconds * NANOSECONDS) + 1


def test_memory_is_profiled_only_where_no_size_is_given(llama: Oracle) -> None:
    """The largest step runs once, as a separate phase."""
    core = core_of(llama, CacheConfig())
    core.close()

    names = [phase.name for phase in core.facts.startup]
    assert names == [*PHASES[:-2], "profile memory", *PHASES[-2:]]


def test_forward_time_lies_within_executing(core: EngineCore) -> None:
    """Each step of a model has the time of its forward pass."""
    core.add(engine_request(1, [5, 6, 7], 4))

    records = [output.record for output in run_to_end(core)]

    assert len(records) == 4
    for record in records:
        assert record is not None
        assert (
            0 < record.execution.forward_ns < record.executed_at - record.scheduled_at
        )
