"""Configuration of the paged KV cache: its size, and the hashes of its blocks."""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.config.option_fields import check_options
from hookline.config.options import Shorthand, option
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

    block_size: int = field(
        default=16,
        metadata=option("Number of tokens per KV block.", metavar="TOKENS", minimum=1),
    )
    num_kv_blocks: int | None = field(
        default=None,
        metadata=option(
            "Number of KV blocks in the pool.",
            metavar="BLOCKS",
            minimum=1,
            shown_default="as many as fit into the memory",
        ),
    )
    kv_cache_memory: int | None = field(
        default=None,
        metadata=option(
            "Memory for KV blocks, instead of a number of blocks: bytes, or a number "
            "with a unit such as 512MiB or 2GiB.",
            metavar="SIZE",
            minimum=1,
            read=read_size,
        ),
    )
    kv_cache_dtype: KVCacheDtype = field(
        default=KVCacheDtype.AUTO,
        metadata=option(
            "Data type of keys and values in the KV cache; auto uses the model's. "
            "int8 has a scale for each token and head, and is the most exact of the "
            "others; fp8 is fp8_e4m3. CPU only."
        ),
    )
    kv_cache_prefault: int | None = field(
        default=None,
        metadata=option(
            "Memory of the KV cache that is mapped in the background right after the "
            "start; 0 maps each page when it is first written. CPU only.",
            metavar="SIZE",
            minimum=0,
            shown_default="that of 65536 tokens, at most 1GiB",
            read=read_size,
        ),
    )
    gpu_memory_utilization: float = field(
        default=0.9,
        metadata=option(
            "Fraction of the GPU's memory for weights, activations and KV cache. "
            "Ignored if the size of the KV cache is set, and on CPUs.",
            metavar="FRACTION",
            above=0,
            maximum=1,
        ),
    )
    enable_prefix_caching: bool = field(
        default=True,
        metadata=option("Reuse the KV blocks of earlier requests' equal prefixes."),
    )
    hash_algorithm: HashAlgorithm = field(
        default=HashAlgorithm.SHA256,
        metadata=option(
            "Hash algorithm that identifies cached blocks.",
            flag="prefix-caching-hash-algo",
        ),
    )
    residency_sample: float = field(
        default=0.0,
        metadata=option(
            "Fraction of the KV blocks whose lifetime, idle time and reuse gaps are "
            "measured.",
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
