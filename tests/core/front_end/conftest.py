"""An engine on an event loop, without a model, whose steps take a given time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from hookline import AsyncEngine
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline.stats.scheduler_stats import Residue
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle

StartEngine = Callable[..., Awaitable[AsyncEngine]]


@pytest.fixture
async def start_engine(llama: Oracle) -> AsyncIterator[StartEngine]:
    """Starts engines; whatever a test does to one, in the end its books balance."""
    engines: list[AsyncEngine] = []

    async def start(step_seconds: float = 0.001, **more: object) -> AsyncEngine:
        config = EngineConfig(
            model=ModelConfig(model=str(llama.folder)),
            cache=CacheConfig(num_kv_blocks=64),
            executor=ExecutorConfig(name="simulated"),
            observers=ObserverConfig(heartbeat_seconds=0.05),
            sections={"simulated": SimulationConfig(step_seconds=step_seconds)},
        )
        engine = await AsyncEngine.start(replace(config, **more))  # type: ignore[arg-type]
        engines.append(engine)
        return engine

    yield start

    for engine in engines:
        if engine.failure is None:
            await asyncio.wait_for(engine._is_quiet.wait(), 10)
            stats = engine._front_end.engines[0].stats
            assert stats.running == stats.waiting == stats.kv_blocks_used == 0
            assert stats.totals.residue == Residue()
        await asyncio.wait_for(engine.close(), 10)
        assert engine._front_end.engines.residue == 0
        assert engine._front_end.engines.num_unconfirmed == 0
