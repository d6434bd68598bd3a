"""Hookline's own engine, behind the entry point `native` of `hookline.engines`."""

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine.building import build_core
from hookline.engine.client import EngineClient
from hookline.engine.inproc import InprocClient
from hookline.engine.process_client import ProcessClient


def connect(config: EngineConfig) -> EngineClient:
    """Starts an engine, here or in a process of its own, and waits until it is ready.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    if not config.in_process:
        return ProcessClient(config)
    core = build_core(config, SystemClock())
    return InprocClient(core, config.observers.heartbeat_seconds)
