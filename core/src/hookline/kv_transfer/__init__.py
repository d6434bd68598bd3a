"""KV transfer: the interface of KV connectors, one Protocol per side."""

from hookline.config.kv_transfer import KVRole, KVTransferConfig, LoadFailurePolicy
from hookline.kv_transfer.capabilities import SchedulerCapabilities, WorkerCapabilities
from hookline.kv_transfer.connector import (
    ReceivingConnector,
    SchedulerConnector,
    TieredConnector,
    TierEventConnector,
    WorkerConnector,
)
from hookline.kv_transfer.layout import KVLayout, TransferClosedError
from hookline.kv_transfer.messages import (
    BlockContent,
    ConnectorMetadata,
    ConnectorRequest,
    FailedTransfer,
    Load,
    PlannedStep,
    TransferResults,
)

__all__ = [
    "BlockContent",
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
    "SchedulerCapabilities",
    "SchedulerConnector",
    "TierEventConnector",
    "TieredConnector",
    "TransferClosedError",
    "TransferResults",
    "WorkerCapabilities",
    "WorkerConnector",
]
