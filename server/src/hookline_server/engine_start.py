"""Starts the engine; imported late, because the engine's imports are slow."""

from functools import partial

from hookline.config import EngineConfig
from hookline.frontend.async_engine import AsyncEngine
from hookline.frontend.observer.starting import observe
from hookline_server.engine import ServingEngine

OBSERVER_MODULE = "hookline_server.observer_process"
"""What an observer process runs, so that it serves the loggers' pages."""


async def start_engine(config: EngineConfig) -> ServingEngine:
    """Starts an engine; raises `ConfigError`, `ModelLoadError` or `RegistryError`."""
    engine = await AsyncEngine.start(
        config, observe=partial(observe, module=OBSERVER_MODULE)
    )
    await engine.start_texts()
    return engine
