"""Makes the two sides of the connector that a configuration names; imports no other."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from hookline.config import EngineConfig
from hookline.config.kv_transfer import OPTION
from hookline.exceptions import ConfigError
from hookline.kv_transfer.connector import SchedulerConnector, WorkerConnector
from hookline.kv_transfer.layout import KVLayout
from hookline.payloads import ConnectorContext
from hookline.plugin_loading.choice import ask_plugin
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # blocks are made of arrays, which loading needs none of
    from hookline.kv_transfer.blocks import KVBlocks

T = TypeVar("T")

CONNECTORS_GROUP = "hookline.connectors"


def load_scheduler_connector(config: EngineConfig) -> SchedulerConnector | None:
    """The scheduler's side; None if nothing is transferred.

    Raises:
        ConfigError: It is unknown or broken, or an option does not fit it.
    """
    made = _load(config, "scheduler", vars(SchedulerConnector))
    return cast("SchedulerConnector | None", made)


def load_worker_connector(config: EngineConfig) -> WorkerConnector | None:
    """The same of the worker's side."""
    return cast(
        "WorkerConnector | None", _load(config, "worker", vars(WorkerConnector))
    )


def _load(
    config: EngineConfig,
    role: Literal["scheduler", "worker"],
    side: Mapping[str, object],
) -> object | None:
    transfer = config.kv_transfer
    if transfer is None:
        return None
    name = transfer.kv_connector
    context = ConnectorContext(
        role=role, config=config, options=transfer.kv_connector_extra_config
    )
    made = ask_plugin(
        CONNECTORS_GROUP, name, "create_kv_connector", context, option=OPTION
    )
    missing = [
        method
        for method, value in side.items()
        if not method.startswith("_") and callable(value) and not hasattr(made, method)
    ]
    if missing:
        raise ConfigError(
            OPTION, f"{name!r} makes no {role}'s side: it has no {missing[0]}"
        )
    return made


def show_blocks(
    connector: WorkerConnector, config: EngineConfig, blocks: "KVBlocks"
) -> bytes:
    """Gives the worker's side the blocks; gives what the scheduler's side is to know.

    Raises:
        ConfigError: It cannot use them, or fails.
    """
    told = _show(connector.register_kv_caches, blocks, config)
    return told if isinstance(told, bytes) else b""


def show_layout(
    connector: SchedulerConnector, config: EngineConfig, layout: KVLayout
) -> None:
    """Tells the scheduler's side what blocks there are.

    Raises:
        ConfigError: It cannot use them, or fails.
    """
    _show(connector.register_kv_layout, layout, config)


def _show(method: Callable[[T], object], given: T, config: EngineConfig) -> object:
    assert config.kv_transfer is not None
    outcome = isolate(method, given)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        name = config.kv_transfer.kv_connector
        raise ConfigError(
            OPTION, f"{name!r} cannot use the KV cache: {outcome.summary}"
        ) from outcome.error
    return outcome
