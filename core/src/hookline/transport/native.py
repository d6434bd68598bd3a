"""Hookline's own engine, for the entry point `native` of `hookline.engines`."""

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.core.building import build_core, build_loop
from hookline.exceptions import ConfigError
from hookline.transport.engine_client import EngineClient
from hookline.transport.inproc_client import InprocClient
from hookline.transport.process_client import ProcessClient


def connect(config: EngineConfig) -> EngineClient:
    """Starts the engines, in this or their own processes, and waits for them.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    configs = config.per_engine()
    if not config.in_process:
        return ProcessClient(*configs)
    if config.supervision.engine_restart:
        raise ConfigError("engine-restart", "requires an engine process of its own")
    cores = [build_core(each, SystemClock()) for each in configs]
    return InprocClient(*map(build_loop, configs, cores))
