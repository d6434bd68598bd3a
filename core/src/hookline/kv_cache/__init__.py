"""The paged KV cache: blocks, their content hashes and their references."""

from hookline.kv_cache.block_pool import BlockPool
from hookline.kv_cache.manager import KVCacheManager

__all__ = ["BlockPool", "KVCacheManager"]
