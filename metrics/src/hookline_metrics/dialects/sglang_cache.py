"""Names of SGLang's KV pool and prefix cache."""

from collections.abc import Mapping

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.dialects.sglang_labels import (
    RANKS,
    Names,
    radix_cache,
    scheduler,
    tokenizer,
)
from hookline_metrics.metric import Alias

_CACHE_CONFIG = Alias(
    name="sglang:cache_config_info",
    rename={
        "engine": "dp_rank",
        "block_size": "page_size",
        "num_kv_blocks": "num_pages",
    },
    drop=frozenset(
        {
            "architecture",
            "dtype",
            "cache_dtype",
            "max_model_len",
            "max_num_seqs",
            "max_num_batched_tokens",
            "enable_prefix_caching",
            "executor",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "isa",
            "version",
            "config_hash",
        }
    ),
    add=RANKS,
)


_SOURCES: Mapping[str, str] = {
    "device": "device",
    "host": "host",
    "disk": "storage",
    "p2p": "storage",
    "unspecified": "storage",
}
"""SGLang's tier by the place that had cached tokens."""

NAMES: Names = {
    "hookline_engine_info": (_CACHE_CONFIG,),
    "hookline_prefix_cache_hit_ratio": (scheduler("cache_hit_rate"),),
    "hookline_prefix_cache_evicted_tokens": (radix_cache("evicted_tokens"),),
    "hookline_prefix_cache_eviction_seconds": (
        radix_cache("eviction_duration_seconds", buckets=BucketFamily.SGLANG_CACHE),
    ),
    "hookline_kv_cache_usage_ratio": (
        scheduler("token_usage"),
        scheduler("full_token_usage"),
    ),
    "hookline_kv_tokens": (
        scheduler("num_used_tokens", only={"state": "used"}),
        scheduler("kv_used_tokens", only={"state": "used"}),
        scheduler("kv_evictable_tokens", only={"state": "cached"}),
        scheduler("kv_available_tokens", only={"state": "free"}),
    ),
    "hookline_kv_capacity_tokens": (scheduler("max_total_num_tokens"),),
    "hookline_kv_capacity_bytes": (
        scheduler("kv_cache_memory_usage_gb", scale=2**-30),
    ),
    "hookline_kv_block_size_tokens": (scheduler("page_size"),),
    "hookline_kv_pool_blocks": (scheduler("num_pages"),),
    "hookline_cached_tokens": (
        tokenizer(
            "cached_tokens",
            rename={"source": "cache_source"},
            values={"source": _SOURCES},
        ),
        scheduler(
            "prefill_effective_tokens",
            rename={"source": "mode"},
            values={
                "source": {place: f"{tier}_hit" for place, tier in _SOURCES.items()}
            },
        ),
    ),
    "hookline_prompt_tokens": (
        scheduler(
            "realtime_tokens",
            rename={"source": "mode"},
            values={
                "source": {
                    "local_cache": "prefill_cache",
                    "external": "prefill_cache",
                }
            },
        ),
        scheduler(
            "prefill_effective_tokens",
            rename={"source": "mode"},
            values={"source": {"computed": "input"}},
        ),
    ),
}
