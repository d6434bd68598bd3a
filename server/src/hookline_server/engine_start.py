"""Starts the engine; imported late, because the engine's imports are slow."""

from hookline.config import EngineConfig
from hookline.frontend.async_engine import AsyncEngine
from hookline_server.engine import ServingEngine


async def start_engine(config: EngineConfig) -> ServingEngine:
    """Starts an engine; raises `ConfigError`, `ModelLoadError` or `RegistryError`."""
    engine = await AsyncEngine.start(config)
    await engine.start_texts()
    return engine
