"""Engines in separate processes, and a recording logger."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hookline import AsyncEngine
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline_simulated.config import SimulationConfig
from hookline_testing import PluginSite
from hookline_testing.oracle import Oracle

StartEngine = Callable[[EngineConfig], Awaitable[AsyncEngine]]


@pytest.fixture
def site(site: PluginSite) -> PluginSite:
    """On the import path for the length of a test; holds the logger `recorder`."""
    site.install_recorder()
    return site


@pytest.fixture
def slow_process(llama: Oracle) -> EngineConfig:
    """A process without a model, slow enough to be killed while requests run."""
    return EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=("recorder",), heartbeat_seconds=0.1),
        in_process=False,
        sections={"simulated": SimulationConfig(step_seconds=0.02)},
    )


@pytest.fixture
async def start_engine() -> AsyncIterator[StartEngine]:
    """Starts engines on the event loop and closes them in the end."""
    engines: list[AsyncEngine] = []

    async def start(config: EngineConfig) -> AsyncEngine:
        engines.append(await AsyncEngine.start(config))
        return engines[-1]

    yield start

    for engine in engines:
        await asyncio.wait_for(engine.close(), 20)
        assert engine._front_end.engines.residue == 0
        assert engine._front_end.engines.num_unconfirmed == 0
