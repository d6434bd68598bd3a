"""The worker's side of a KV connector that transfers nothing, to derive others from."""

from hookline_kv_transfer import (
    ConnectorMetadata,
    TransferResults,
    WorkerCapabilities,
)
from hookline_kv_transfer.blocks import KVBlocks


class IdleWorkerSide:
    """Takes every call and does nothing."""

    capabilities = WorkerCapabilities(needs_layers=False)

    def register_kv_caches(self, blocks: KVBlocks) -> None:
        """Does nothing."""

    def start_load_kv(self, metadata: ConnectorMetadata) -> None:
        """Does nothing."""

    def wait_for_layer_load(self, layer_index: int) -> None:
        """Does nothing."""

    def save_kv_layer(self, layer_index: int) -> None:
        """Does nothing."""

    def wait_for_save(self) -> None:
        """Does nothing."""

    def get_finished(self) -> TransferResults:
        """Returns that nothing has finished."""
        return TransferResults()

    def shutdown(self) -> None:
        """Does nothing."""
