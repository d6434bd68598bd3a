"""KV transfer: the seam that KV connectors implement, one Protocol a side."""

from hookline.kv_transfer.connector import (
    ConnectorMetadata,
    SchedulerConnector,
    TransferResults,
    WorkerConnector,
)

__all__ = [
    "ConnectorMetadata",
    "SchedulerConnector",
    "TransferResults",
    "WorkerConnector",
]
