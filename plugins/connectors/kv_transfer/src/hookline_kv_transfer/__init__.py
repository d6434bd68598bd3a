"""Extension `kv_transfer`: loads and saves KV blocks by a connector.

Here is the interface of KV connectors, one Protocol per side.
"""

from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext
from hookline_kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline_kv_transfer.config import KVRole, KVTransferConfig, LoadFailurePolicy
from hookline_kv_transfer.connector import (
    ReceivingConnector,
    ResettableConnector,
    SchedulerConnector,
    TieredConnector,
    TierEventConnector,
    WorkerConnector,
)
from hookline_kv_transfer.context import ConnectorContext
from hookline_kv_transfer.layout import KVLayout, TransferClosedError
from hookline_kv_transfer.messages import (
    BlockContent,
    ConnectorMetadata,
    ConnectorRequest,
    FailedTransfer,
    Load,
    PlannedStep,
    TransferResults,
)
from hookline_metrics.transfer_calls import TierReset

__all__ = [
    "BlockContent",
    "ConnectorContext",
    "ConnectorMetadata",
    "ConnectorRequest",
    "FailedTransfer",
    "KVLayout",
    "KVRole",
    "KVTransferConfig",
    "Load",
    "LoadFailurePolicy",
    "PlannedStep",
    "ReceivingConnector",
    "ResettableConnector",
    "SchedulerCapabilities",
    "SchedulerConnector",
    "TierEventConnector",
    "TierReset",
    "TieredConnector",
    "TransferClosedError",
    "TransferResults",
    "WorkerCapabilities",
    "WorkerConnector",
    "create_extension",
]


@hookimpl
def create_extension(context: ExtensionContext) -> object:
    """Makes the extension.

    Raises:
        ConfigError: An option is wrong, or the connector is unknown or broken.
    """
    from hookline_kv_transfer.extension import make_extension  # noqa: PLC0415

    return make_extension(context)
