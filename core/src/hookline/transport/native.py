"""Hookline's own engine, for the entry point `native` of `hookline.engines`."""

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.config.expert_spread import check_processes
from hookline.core.building import build_core, build_loop
from hookline.exceptions import ConfigError
from hookline.transport.cluster import find_cluster, require_cluster
from hookline.transport.engine_client import EngineClient
from hookline.transport.inproc_client import InprocClient
from hookline.transport.process_client import ProcessClient


def connect(config: EngineConfig) -> EngineClient:
    """Starts the engine, in this or its own process, and waits for it.

    An installed cluster has the engines that have processes, so that more can come.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    if (option := _option_of_several(config)) is not None:
        return require_cluster(option).connect(config)
    if config.in_process:
        return connect_in_process(config)
    if (cluster := find_cluster()) is not None:
        return cluster.connect(config)
    return ProcessClient(*config.per_engine())


def connect_in_process(config: EngineConfig) -> InprocClient:
    """Starts the engines in this process.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    if config.supervision.engine_restart:
        raise ConfigError("engine-restart", "requires an engine process of its own")
    check_processes(config.parallel)
    configs = config.per_engine()
    cores = [build_core(each, SystemClock()) for each in configs]
    return InprocClient(*map(build_loop, configs, cores))


def _option_of_several(config: EngineConfig) -> str | None:
    """Returns the option that asks for several engines; None if there is one."""
    if config.parallel.autoscale is not None:
        return "autoscale"
    if config.machines.is_placed:
        return "data-parallel-backend"
    return "data-parallel-size" if len(config.engine_indices) > 1 else None
