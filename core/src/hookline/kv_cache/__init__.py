"""The paged KV cache: blocks, their hashes, and who holds them."""

from hookline.kv_cache.block_pool import BlockPool, PoolChanges
from hookline.kv_cache.manager import KVCacheManager

__all__ = ["BlockPool", "KVCacheManager", "PoolChanges"]
