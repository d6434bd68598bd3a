"""Starts the real engine; imported late, for the engine's imports are heavy."""

from hookline.config import EngineConfig
from hookline.frontend.async_engine import AsyncEngine
from hookline_server.engine import ServingEngine


async def start_engine(config: EngineConfig) -> ServingEngine:
    """Starts an engine; raises `ConfigError`, `ModelLoadError` or `RegistryError`."""
    return await AsyncEngine.start(config)
