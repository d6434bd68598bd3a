"""Facts about an engine's KV cache beyond its size."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """How an engine's KV cache was configured, and what is behind it.

    Attributes:
        hash_algorithm: Hash algorithm that identifies cached blocks.
        gpu_memory_utilization: Configured fraction of a GPU's memory; without effect on
            CPUs, and if the cache's size is configured.
        configured_blocks: Configured number of KV blocks; None if the engine chose it.
        configured_bytes: Configured memory for KV blocks; None without it.
        connector: Name of the KV connector; empty without one.
        host_blocks: Capacity of the connector's tier in host memory, in blocks; 0
            without one.
        host_bytes: The same in bytes.
    """

    hash_algorithm: str = "sha256"
    gpu_memory_utilization: float = 0.9
    configured_blocks: int | None = None
    configured_bytes: int | None = None
    connector: str = ""
    host_blocks: int = 0
    host_bytes: int = 0
