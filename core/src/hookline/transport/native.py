"""Hookline's own engine, for the entry point `native` of `hookline.engines`."""

import logging
from typing import cast

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.core.building import build_core, build_loop
from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import ENGINE
from hookline.transport.cluster import find_cluster
from hookline.transport.engine_client import EngineClient
from hookline.transport.inproc_client import InprocClient
from hookline_registry import UnknownPluginError

_log = logging.getLogger(__name__)


def connect(config: EngineConfig) -> EngineClient:
    """Starts the engine, in this or its own process, and waits for it.

    An installed cluster has the engines that have processes, so that more can come.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    if config.in_process and not config.prefers_processes:
        return connect_in_process(config)
    if (cluster := find_cluster()) is not None:
        return cluster.connect(config)
    return _connect_to_process(config)


def connect_in_process(config: EngineConfig) -> InprocClient:
    """Starts the engines in this process.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    if config.supervision.engine_restart:
        raise ConfigError("engine-restart", "requires an engine process of its own")
    configs = [config.of_engine(index) for index in config.engine_indices]
    cores = [build_core(each, SystemClock()) for each in configs]
    return InprocClient(*map(build_loop, configs, cores))


def _connect_to_process(config: EngineConfig) -> EngineClient:
    """Starts the engine in its own process, if the plugin `process` is installed."""
    try:
        connect = hook_of(ENGINE, "process")
    except UnknownPluginError:
        _log.warning(
            "the engine runs in this process: the distribution "
            "hookline-process-engine is not installed or not allowed"
        )
        return connect_in_process(config)
    return cast("EngineClient", connect(context=config))
