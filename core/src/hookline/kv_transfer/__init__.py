"""KV transfer: the seam that KV connectors implement, one Protocol a side."""

from hookline.config.kv_transfer import KVRole, KVTransferConfig, LoadFailurePolicy
from hookline.kv_transfer.connector import (
    ListeningConnector,
    SchedulerConnector,
    TieredConnector,
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
    "ListeningConnector",
    "Load",
    "LoadFailurePolicy",
    "PlannedStep",
    "SchedulerConnector",
    "TieredConnector",
    "TransferClosedError",
    "TransferResults",
    "WorkerConnector",
]
