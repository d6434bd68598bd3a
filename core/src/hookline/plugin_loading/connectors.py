"""Loads the two sides of the KV connector that a configuration names."""

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from hookline.config.engine import EngineConfig
from hookline.config.kv_transfer import OPTION
from hookline.exceptions import ConfigError
from hookline.frozen import frozen_json
from hookline.kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline.kv_transfer.connector import (
    ReceivingConnector,
    SchedulerConnector,
    TieredConnector,
    WorkerConnector,
)
from hookline.kv_transfer.layout import KVLayout
from hookline.payloads import ConnectorContext
from hookline.plugin_loading.made import Made
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import CONNECTOR
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # needs numpy, which loading a connector does not
    from hookline.kv_transfer.blocks import KVBlocks

T = TypeVar("T")


def load_scheduler_connector(config: EngineConfig) -> SchedulerConnector | None:
    """Returns the scheduler's side, or None if nothing is transferred.

    Raises:
        ConfigError: The plugin is unknown or broken, or an option is invalid.
    """
    if (made := _load(config, "scheduler")) is None:
        return None
    made.require(SchedulerConnector)
    capabilities = made.capabilities(SchedulerCapabilities)
    if capabilities.receives_payloads:
        made.require(ReceivingConnector)
    if capabilities.has_tiers:
        made.require(TieredConnector)
    return cast("SchedulerConnector", made.value)


def load_worker_connector(config: EngineConfig) -> WorkerConnector | None:
    """Returns the worker's side, or None if nothing is transferred.

    Raises:
        ConfigError: The plugin is unknown or broken, or an option is invalid.
    """
    if (made := _load(config, "worker")) is None:
        return None
    made.require(WorkerConnector)
    made.capabilities(WorkerCapabilities)
    return cast("WorkerConnector", made.value)


def _load(config: EngineConfig, role: Literal["scheduler", "worker"]) -> Made | None:
    transfer = config.kv_transfer
    if transfer is None:
        return None
    name = transfer.kv_connector
    context = ConnectorContext(
        role=role,
        config=deepcopy(config),  # its maps can be changed
        options=frozen_json(transfer.kv_connector_extra_config),
    )
    value = call_plugin(CONNECTOR, name, context, option=OPTION)
    return Made(plugin=name, option=OPTION, kind=f"{role}'s side", value=value)


def register_kv_caches(
    connector: WorkerConnector, config: EngineConfig, blocks: "KVBlocks"
) -> bytes:
    """Registers the blocks with the worker's side; returns its handshake.

    Raises:
        ConfigError: The connector cannot use the blocks, or fails.
    """
    handshake = _register(connector.register_kv_caches, blocks, config)
    return handshake if isinstance(handshake, bytes) else b""


def register_kv_layout(
    connector: SchedulerConnector, config: EngineConfig, layout: KVLayout
) -> None:
    """Registers the layout of the blocks with the scheduler's side.

    Raises:
        ConfigError: The connector cannot use the blocks, or fails.
    """
    _register(connector.register_kv_layout, layout, config)


def _register(
    method: Callable[[T], object], argument: T, config: EngineConfig
) -> object:
    assert config.kv_transfer is not None
    outcome = isolate(method, argument)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        name = config.kv_transfer.kv_connector
        raise ConfigError(
            OPTION, f"{name!r} cannot use the KV cache: {outcome.summary}"
        ) from outcome.error
    return outcome
