"""HELP of vLLM's names of KV offloading, and how their values deviate from vLLM's."""

from collections.abc import Mapping

_IN_STEP = (
    "copies are part of a step, so that only those of steps planned ahead "
    "(--async-scheduling) are seen"
)
_PER_REQUEST = (
    "blocks count once per look-up that led to a load or to the request's end"
)
_NO_DISK = "blocks on disk are loaded straight into the KV cache and do not count here"
_OLDER = "DEPRECATED in vLLM in favour of "

HELP: Mapping[str, str] = {
    "vllm:kv_offload_config_info": "Size of host memory for KV blocks, as labels; the "
    "value is always 1.",
    "vllm:kv_offload_store_bytes": "Bytes of KV blocks stored in host memory.",
    "vllm:kv_offload_load_bytes": "Bytes of KV blocks loaded from host memory.",
    "vllm:kv_offload_store_time": "Seconds spent copying KV blocks to host memory.",
    "vllm:kv_offload_load_time": "Seconds spent copying KV blocks from host memory.",
    "vllm:kv_offload_store_size": "Bytes stored in host memory by each step that "
    "stores any.",
    "vllm:kv_offload_load_size": "Bytes loaded from host memory by each load.",
    "vllm:kv_offload_total_bytes": _OLDER + "kv_offload_store_bytes and _load_bytes. "
    "Bytes of KV blocks copied to host memory and from it.",
    "vllm:kv_offload_total_time": _OLDER + "kv_offload_store_time and _load_time. "
    "Seconds spent copying KV blocks to host memory and from it.",
    "vllm:kv_offload_size": _OLDER + "kv_offload_store_size and _load_size. Bytes of "
    "each store in host memory and of each load from it.",
    "vllm:kv_offload_cpu_allocation_size": "KV blocks for which a store asked room in "
    "host memory, whether or not there was any.",
    "vllm:kv_offload_allocation_failure": "Stores in host memory of which at least one "
    "KV block was dropped for lack of room.",
    "vllm:kv_offload_cpu_cache_usage_perc": "Share of host memory, from 0 to 1, held "
    "by stores and loads in flight; stored blocks at rest do not count.",
    "vllm:kv_offload_cpu_cache_write_usage_perc": "Share of host memory, from 0 to 1, "
    "held by stores in flight.",
    "vllm:kv_offload_cpu_cache_read_usage_perc": "Share of host memory, from 0 to 1, "
    "held by loads in flight.",
    "vllm:kv_offload_tiering_write_bytes": "Bytes of KV blocks written to disk.",
    "vllm:kv_offload_tiering_read_bytes": "Bytes of KV blocks read from disk.",
    "vllm:kv_offload_tiering_write_time": "Seconds spent writing KV blocks to disk.",
    "vllm:kv_offload_tiering_read_time": "Seconds spent reading KV blocks from disk, "
    "summed over threads.",
    "vllm:kv_offload_tiering_cascade_job_failures": "Writes to disk of which not all "
    "KV blocks were written.",
    "vllm:kv_offload_tiering_promotion_job_failures": "Loads from disk of which not "
    "all KV blocks were read, because they failed or their request was cancelled.",
    "vllm:kv_offload_tiering_active_cascade_jobs": "Writes to disk in flight.",
    "vllm:kv_offload_tiering_active_promotion_jobs": "Loads from disk in flight.",
    "vllm:kv_offload_tiering_promotion_latency_seconds": "Time from the order of a "
    "load from disk to its end, by result.",
    "vllm:kv_offload_tiering_backpressure_stores_dropped": "Writes to disk dropped "
    "because too many bytes waited to be written.",
    "vllm:kv_offload_tiering_backpressure_blocks_dropped": "KV blocks of the writes to "
    "disk dropped because too many bytes waited to be written.",
    "vllm:kv_offload_tiering_lookup_sync_delay_seconds": "Time that a look-up of a "
    "waiting request spent in a tier, for which the scheduler waits.",
    "vllm:kv_offload_tiering_chunk_queries": "KV blocks looked up in a tier beyond "
    "those found in earlier tiers.",
    "vllm:kv_offload_tiering_chunk_hits": "KV blocks looked up in a tier and loaded "
    "from it.",
}
"""HELP by name, without `_total`."""

DEVIATIONS: Mapping[str, str] = {
    "vllm:kv_offload_load_bytes": _NO_DISK,
    "vllm:kv_offload_load_time": _NO_DISK,
    "vllm:kv_offload_load_size": _NO_DISK,
    "vllm:kv_offload_config_info": "all KV blocks are of one kind, so that the "
    "capacity in tokens is not an upper bound",
    "vllm:kv_offload_lookup_sync_delay_seconds": "of whichever KV connector is in use",
    "vllm:kv_offload_allocation_failure": "the blocks that have room are stored; vLLM "
    "then stores none",
    "vllm:kv_offload_cpu_cache_usage_perc": _IN_STEP,
    "vllm:kv_offload_cpu_cache_write_usage_perc": _IN_STEP,
    "vllm:kv_offload_cpu_cache_read_usage_perc": _IN_STEP,
    "vllm:kv_offload_tiering_lookup_sync_delay_seconds": "one observation per look-up "
    "of a request in the tier; vLLM has one per block",
    "vllm:kv_offload_tiering_chunk_queries": _PER_REQUEST,
    "vllm:kv_offload_tiering_chunk_hits": _PER_REQUEST,
    "vllm:kv_offload_tiering_read_bytes": "read straight into the KV cache, not into "
    "host memory",
    "vllm:kv_offload_tiering_promotion_job_failures": "cancelled loads are included",
    "vllm:kv_offload_tiering_promotion_latency_seconds": "until the blocks are in the "
    "KV cache",
    "vllm:kv_offload_tiering_backpressure_stores_dropped": "dropped by the bytes that "
    "wait; vLLM decides by the latency of stores",
    "vllm:kv_offload_tiering_backpressure_blocks_dropped": "dropped by the bytes that "
    "wait; vLLM decides by the latency of stores",
}
"""The deviation by name, without `_total`."""
