"""Loads the two sides of the KV connector that a configuration names."""

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frozen import frozen_json
from hookline.plugin_loading.made import Made
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import CONNECTOR
from hookline_kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline_kv_transfer.config import OPTION, KVTransferConfig
from hookline_kv_transfer.connector import (
    ReceivingConnector,
    ResettableConnector,
    SchedulerConnector,
    TieredConnector,
    WorkerConnector,
)
from hookline_kv_transfer.context import ConnectorContext
from hookline_kv_transfer.layout import KVLayout
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # needs numpy, which loading a connector does not
    from hookline_kv_transfer.blocks import KVBlocks

T = TypeVar("T")


def load_scheduler_connector(
    config: EngineConfig, transfer: KVTransferConfig
) -> SchedulerConnector:
    """Returns the scheduler's side.

    Raises:
        ConfigError: The plugin is unknown or broken, or an option is invalid.
    """
    made = _load(config, transfer, "scheduler")
    made.require(
        SchedulerConnector,
        lambda side: SchedulerCapabilities(
            receives_payloads=hasattr(side, "update_connector_output"),
            has_tiers=hasattr(side, "tier_stats"),
        ),
    )
    capabilities = made.capabilities(SchedulerCapabilities)
    if capabilities.receives_payloads:
        made.require(ReceivingConnector)
    if capabilities.has_tiers:
        made.require(TieredConnector)
    if capabilities.resets_cache:
        made.require(ResettableConnector)
    return cast("SchedulerConnector", made.value)


def load_worker_connector(
    config: EngineConfig, transfer: KVTransferConfig
) -> WorkerConnector:
    """Returns the worker's side.

    Raises:
        ConfigError: The plugin is unknown or broken, or an option is invalid; or it
            does not work with as many ranks.
    """
    made = _load(config, transfer, "worker")
    made.require(
        WorkerConnector,
        lambda side: WorkerCapabilities(
            needs_layers=bool(getattr(side, "needs_layers", True))
        ),
    )
    capabilities = made.capabilities(WorkerCapabilities)
    check_ranks(config, transfer.kv_connector, capabilities)
    return cast("WorkerConnector", made.value)


def check_ranks(
    config: EngineConfig, name: str, capabilities: WorkerCapabilities
) -> None:
    """Raises `ConfigError` if a connector does not work with as many ranks."""
    size = config.parallel.world_size
    if size > 1 and not capabilities.works_in_ranks:
        raise ConfigError(
            OPTION,
            f"{name!r} does not work with several ranks "
            "(tensor-parallel-size, pipeline-parallel-size)",
        )
    has_others = config.parallel.num_here < size
    if has_others and not capabilities.works_on_machines:
        raise ConfigError(
            OPTION, f"{name!r} does not work with ranks on several machines"
        )


def _load(
    config: EngineConfig,
    transfer: KVTransferConfig,
    role: Literal["scheduler", "worker"],
) -> Made:
    name = transfer.kv_connector
    context = ConnectorContext(
        role=role,
        config=deepcopy(config),  # its maps can be changed
        transfer=transfer,
        options=frozen_json(transfer.kv_connector_extra_config),
    )
    value = call_plugin(CONNECTOR, name, context, option=OPTION)
    return Made(plugin=name, option=OPTION, kind=f"{role}'s side", value=value)


def register_kv_caches(
    connector: WorkerConnector, name: str, blocks: "KVBlocks"
) -> bytes:
    """Registers the blocks with the worker's side; returns its handshake.

    Raises:
        ConfigError: The connector cannot use the blocks, or fails.
    """
    handshake = _register(connector.register_kv_caches, blocks, name)
    return handshake if isinstance(handshake, bytes) else b""


def register_kv_layout(
    connector: SchedulerConnector, name: str, layout: KVLayout
) -> None:
    """Registers the layout of the blocks with the scheduler's side.

    Raises:
        ConfigError: The connector cannot use the blocks, or fails.
    """
    _register(connector.register_kv_layout, layout, name)


def _register(method: Callable[[T], object], argument: T, name: str) -> object:
    outcome = isolate(method, argument)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        raise ConfigError(
            OPTION, f"{name!r} cannot use the KV cache: {outcome.summary}"
        ) from outcome.error
    return outcome
