"""Connects the worker's side of a KV connector with an executor's KV cache."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from hookline.config.engine import EngineConfig
from hookline.kv_transfer.blocks import KVBlocks, LayerMemory
from hookline.kv_transfer.connector import WorkerConnector
from hookline.kv_transfer.layout import KVLayout
from hookline.plugin_loading.connectors import register_kv_caches
from hookline.worker.transfers.transferring import Transferring


def connect(
    connector: WorkerConnector,
    config: EngineConfig,
    layers: Sequence[LayerMemory],
    *,
    num_blocks: int,
    dtype: str,
    content: bytes,
) -> Transferring:
    """Registers the cache with a connector.

    Args:
        connector: The worker's side.
        config: The engine's configuration, which names the connector.
        layers: The cache's memory.
        num_blocks: Number of blocks in it.
        dtype: Type of K and V.
        content: Everything that K and V depend on besides tokens, block size and
            hashes: the model, and the memory layout.

    Raises:
        ConfigError: The connector cannot use the cache.
    """
    assert config.kv_transfer is not None
    block_bytes = tuple(layer.block_bytes for layer in layers)
    digest = hashlib.sha256(content)
    own = (dtype, config.cache.block_size, config.cache.hash_algorithm, block_bytes)
    digest.update(repr(own).encode())
    layout = KVLayout(
        fingerprint=digest.hexdigest(),
        num_blocks=num_blocks,
        block_size=config.cache.block_size,
        dtype=dtype,
        block_bytes=block_bytes,
    )
    blocks = KVBlocks(layout, layers)
    blocks.layout = replace(
        layout, handshake=register_kv_caches(connector, config, blocks)
    )
    return Transferring(
        connector,
        config.kv_transfer.kv_connector,
        blocks,
        timeout_seconds=config.kv_transfer.kv_call_timeout_seconds,
    )
