"""The worker's side: begins and ends the transfers of each step."""

import hashlib
from dataclasses import replace

from hookline.config import EngineConfig
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.worker.extension import ShownCache, WorkerSide
from hookline.sections import Section
from hookline.step import StepPlan
from hookline_kv_transfer.blocks import KVBlocks
from hookline_kv_transfer.config import KVTransferConfig
from hookline_kv_transfer.connector import WorkerConnector
from hookline_kv_transfer.connector_thread import ConnectorThread
from hookline_kv_transfer.kv_memory import layers_of
from hookline_kv_transfer.layout import KVLayout
from hookline_kv_transfer.loading import register_kv_caches
from hookline_kv_transfer.orders import TransferOrders

_ORDERS = Section(KV_TRANSFER, TransferOrders)


class TransferWorker(WorkerSide):
    """Calls a connector around each step, and around its layers if it needs them."""

    uses_cache = True

    def __init__(
        self,
        connector: WorkerConnector,
        config: EngineConfig,
        transfer: KVTransferConfig,
    ) -> None:
        """Gets ready for a KV cache.

        Args:
            connector: The worker's side of the connector.
            config: The engine's configuration.
            transfer: The connector's.
        """
        self._connector = connector
        self._config, self._transfer = config, transfer
        self._needs_layers = connector.capabilities.needs_layers
        if self._needs_layers:
            self.graph_obstacle = "a KV connector is called between the layers"
        self._connector_thread: ConnectorThread | None = None

    def allocated(self, cache: ShownCache) -> None:
        """Registers the cache with the connector.

        Raises:
            ConfigError: The connector cannot use it.
        """
        layers, name = layers_of(cache.memory), self._transfer.kv_connector
        block_bytes = tuple(layer.block_bytes for layer in layers)
        layout = KVLayout(
            fingerprint=self._fingerprint(cache, block_bytes),
            num_blocks=cache.num_blocks,
            block_size=self._config.cache.block_size,
            dtype=cache.dtype,
            block_bytes=block_bytes,
        )
        blocks = KVBlocks(layout, layers)
        handshake = register_kv_caches(self._connector, name, blocks)
        blocks.layout = replace(layout, handshake=handshake)
        self._connector_thread = connector_thread = ConnectorThread(
            self._connector,
            name,
            blocks,
            timeout_seconds=self._transfer.kv_call_timeout_seconds,
        )
        if self._needs_layers:
            cache.memory.call_around(
                connector_thread.before_attention, connector_thread.after_attention
            )

    def _fingerprint(self, cache: ShownCache, block_bytes: tuple[int, ...]) -> str:
        """Digests everything besides tokens that a block's bytes depend on."""
        own = self._config.cache
        digest = hashlib.sha256(cache.content)
        facts = (cache.dtype, own.block_size, own.hash_algorithm, block_bytes)
        digest.update(repr(facts).encode())
        return digest.hexdigest()

    def describe(self, sections: dict[str, object]) -> None:
        """Tells the layout of the blocks."""
        sections[KV_TRANSFER] = self._bound.layout

    def started(self, plan: StepPlan) -> None:
        """Begins the transfers of a plan."""
        self._bound.start_step(_ORDERS.read(plan.sections))

    def ended(self, sections: dict[str, object]) -> None:
        """Ends those that have to end with the layers; tells what has ended."""
        sections[KV_TRANSFER] = self._bound.finish_step()

    def close(self) -> None:
        if self._connector_thread is not None:
            self._connector_thread.close()

    @property
    def _bound(self) -> ConnectorThread:
        assert self._connector_thread is not None, "the cache comes first"
        return self._connector_thread
