"""The size of the paged KV cache, and how its blocks are found again."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.checks import check_positive
from hookline.exceptions import ConfigError


class HashAlgorithm(StrEnum):
    SHA256 = "sha256"
    BLAKE2B = "blake2b"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The paged KV cache.

    Attributes:
        block_size: Tokens a block.
        num_kv_blocks: Size of the pool; None derives it from the memory.
        kv_cache_memory: Bytes for the pool; None takes a share of what is free.
        kv_cache_prefault: Bytes of the pool that the system is asked for in the
            background after the start, where it lies in main memory; 0 asks for none.
            The rest comes when it is first written, which takes longer.
        gpu_memory_utilization: Share of a GPU's memory for everything, where the pool
            is derived from the memory; other devices do not look at it.
        enable_prefix_caching: Reuse full blocks of earlier requests.
        hash_algorithm: Of the chained block hashes.
        residency_sample: Share of the blocks whose lifetime, idle time and reuse gaps
            are measured, 0 to 1; 0 measures none.
    """

    block_size: int = 16
    num_kv_blocks: int | None = None
    kv_cache_memory: int | None = None
    kv_cache_prefault: int = 1 << 30
    gpu_memory_utilization: float = 0.9
    enable_prefix_caching: bool = True
    hash_algorithm: HashAlgorithm = HashAlgorithm.SHA256
    residency_sample: float = 0.0

    def __post_init__(self) -> None:
        check_positive("block-size", self.block_size)
        check_positive("num-kv-blocks", self.num_kv_blocks)
        check_positive("kv-cache-memory", self.kv_cache_memory)
        if self.kv_cache_prefault < 0:
            raise ConfigError("kv-cache-prefault", "must be at least 0")
        if self.num_kv_blocks is not None and self.kv_cache_memory is not None:
            raise ConfigError(
                "num-kv-blocks", "give either this or kv-cache-memory, not both"
            )
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                "gpu-memory-utilization", "must be above 0, and 1 at most"
            )
        if not 0 <= self.residency_sample <= 1:
            raise ConfigError("kv-cache-metrics-sample", "must be 0 to 1")
        if self.residency_sample and not self.enable_prefix_caching:
            raise ConfigError(
                "kv-cache-metrics-sample", "needs prefix caching, which is off"
            )
