"""Numbers of an engine in another process: startup, costs, evictions."""

from dataclasses import replace

import pytest

from hookline.clock import NANOSECONDS, SystemClock
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.engine.commands import Add
from hookline.engine_setup.building import build_core
from hookline.events import StepOutput
from hookline_process_engine.process_client import ProcessClient
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.simulation import engine_request

WAIT_SECONDS = 20.0


@pytest.mark.slow
def test_costs_and_phases_cross_the_boundary(llama: Oracle) -> None:
    """The facts are the engine's own, and the start of its process is around them."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=32),
    )
    here = build_core(config, SystemClock())
    here.close()

    client = ProcessClient(replace(config, in_process=False))
    client.close()

    assert client.engines[0].facts.model.cost == here.facts.model.cost
    names = [phase.name for phase in client.engines[0].facts.startup]
    own = [phase.name for phase in here.facts.startup]
    assert names == ["start engine process", *own]
    around, inside, *_ = client.engines[0].facts.startup
    assert around.seconds > inside.seconds > 0
    assert abs(inside.started_at - around.started_at) < WAIT_SECONDS * NANOSECONDS


def test_evictions_cross_the_boundary(llama: Oracle) -> None:
    """Prompts that cannot all stay in the pool drive each other out."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=16, residency_sample=1.0),
        executor=ExecutorConfig(name="simulated"),
        in_process=False,
        sections={"simulated": SimulationConfig(step_seconds=0.0)},
    )
    client = ProcessClient(config)
    outputs: list[StepOutput] = []

    for request_id in range(4):
        client.send(0, Add(engine_request(request_id, [request_id + 3] * 128)))
    while not any(each.stats.totals.finished.get("length") == 4 for each in outputs):
        output = client.receive(WAIT_SECONDS)
        assert isinstance(output, StepOutput)
        outputs.append(output)
    client.close()

    evictions = [eviction for output in outputs for eviction in output.events.evictions]
    assert len(evictions) == 16
    assert all(0 <= each.idle < each.lifetime for each in evictions)
    assert all(each.reuse_gaps == () for each in evictions)
