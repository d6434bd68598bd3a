"""Configuration of the paged KV cache: its size, and the hashes of its blocks."""

from dataclasses import dataclass
from enum import StrEnum

from hookline.config.options import Shorthand, check_options, option
from hookline.config.readers import read_size
from hookline.exceptions import ConfigError

_SAMPLE = 0.01
"""Fraction of the blocks that `--kv-cache-metrics` measures."""


class KVCacheDtype(StrEnum):
    AUTO = "auto"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    INT8 = "int8"


class HashAlgorithm(StrEnum):
    SHA256 = "sha256"
    BLAKE2B = "blake2b"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The paged KV cache; memory is in bytes.

    Attributes:
        sibling_blocks: Number of blocks that engines have beside which this one starts;
            set at the engine's start.
    """

    block_size: int = option(
        "Number of tokens per KV block.", default=16, metavar="TOKENS", minimum=1
    )
    num_kv_blocks: int | None = option(
        "Number of KV blocks in the pool.",
        default=None,
        metavar="BLOCKS",
        minimum=1,
        shown_default="as many as fit into the memory",
    )
    kv_cache_memory: int | None = option(
        "Memory for KV blocks, instead of a number of blocks: bytes, or a number "
        "with a unit such as 512MiB or 2GiB.",
        default=None,
        metavar="SIZE",
        minimum=1,
        read=read_size,
    )
    kv_cache_dtype: KVCacheDtype = option(
        "Data type of keys and values in the KV cache; auto uses the model's. "
        "int8 has a scale for each token and head, and is the most exact of the "
        "others; fp8 is fp8_e4m3. CPU only.",
        default=KVCacheDtype.AUTO,
    )
    kv_cache_prefault: int | None = option(
        "Memory of the KV cache that is mapped in the background right after the "
        "start; 0 maps each page when it is first written. CPU only.",
        default=None,
        metavar="SIZE",
        minimum=0,
        shown_default="that of 65536 tokens, at most 1GiB",
        read=read_size,
    )
    gpu_memory_utilization: float = option(
        "Fraction of the GPU's memory for weights, activations and KV cache. "
        "Ignored if the size of the KV cache is set, and on CPUs.",
        default=0.9,
        metavar="FRACTION",
        above=0,
        maximum=1,
    )
    enable_prefix_caching: bool = option(
        "Reuse the KV blocks of earlier requests' equal prefixes.", default=True
    )
    hash_algorithm: HashAlgorithm = option(
        "Hash algorithm that identifies cached blocks.",
        default=HashAlgorithm.SHA256,
        flag="prefix-caching-hash-algo",
    )
    residency_sample: float = option(
        "Fraction of the KV blocks whose lifetime, idle time and reuse gaps are "
        "measured.",
        default=0.0,
        flag="kv-cache-metrics-sample",
        metavar="FRACTION",
        minimum=0,
        maximum=1,
        shorthand=Shorthand(
            flag="kv-cache-metrics",
            value=_SAMPLE,
            help="Measure lifetime, idle time and reuse gaps of "
            f"{_SAMPLE:.0%} of the KV blocks.",
        ),
    )

    sibling_blocks: int | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.num_kv_blocks is not None and self.kv_cache_memory is not None:
            raise ConfigError(
                "num-kv-blocks", "set either this or kv-cache-memory, not both"
            )
        if self.residency_sample and not self.enable_prefix_caching:
            raise ConfigError(
                "kv-cache-metrics-sample", "requires enable-prefix-caching"
            )
