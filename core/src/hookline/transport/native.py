"""Engines that Hookline's processes drive; the entry point `native` of engines."""

import logging
from contextlib import suppress
from typing import Protocol, cast

from hookline.config.engine import OWN_ENGINE, EngineConfig
from hookline.engine_setup.building import build_engine
from hookline.exceptions import ConfigError
from hookline.plugins.calling import find_hook, hook_of
from hookline.plugins.kinds import CLUSTER, ENGINE
from hookline.transport.engine_client import EngineClient
from hookline.transport.inproc_client import InprocClient
from hookline_registry import UnknownPluginError

_log = logging.getLogger(__name__)
_CLUSTERS = ("cluster", "process")
"""Plugins that have engines in processes; the first one also has several."""


class EngineProcesses(Protocol):
    """What `create_cluster` of a plugin returns; it also `ExtendsFrontEnds`."""

    def connect(self, config: EngineConfig) -> EngineClient:
        """Starts the engines and waits for them, as `connect` does."""


def find_cluster() -> object | None:
    """Returns what an installed plugin makes for engines in processes of their own.

    Raises:
        RegistryError: Two distributions claim it, or it cannot be imported.
    """
    for name in _CLUSTERS:
        with suppress(UnknownPluginError):
            return hook_of(CLUSTER, name)()
    return None


def is_driven(engine: str) -> bool:
    """Whether Hookline's processes drive an engine, so that front ends can share it."""
    return engine == OWN_ENGINE or bool(find_hook(ENGINE, engine, "create_engine"))


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
        return cast("EngineProcesses", cluster).connect(config)
    _log.warning(
        "the engine runs in this process: the distribution hookline-process-engine is "
        "not installed or not allowed"
    )
    return connect_in_process(config)


def connect_in_process(config: EngineConfig) -> InprocClient:
    """Starts the engines in this process.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    if config.process_option:
        raise ConfigError(
            config.process_option, "requires an engine process of its own"
        )
    configs = [config.of_engine(index) for index in config.engine_indices]
    return InprocClient(*map(build_engine, configs))
