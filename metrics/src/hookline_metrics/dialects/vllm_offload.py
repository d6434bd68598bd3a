"""vLLM's names of KV offloading and of its tiers.

Our tier `cpu` is vLLM's host memory, which it calls the primary tier; our tier `disk`
is its secondary tier of the type `fs`.
"""

from collections.abc import Iterable, Mapping

from hookline_metrics.buckets import BucketFamily
from hookline_metrics.metric import Alias, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading
from hookline_metrics.transfer_stats import transfers_of

_SECONDARY = {"disk": "1:fs"}
_TIERS = {"cpu": "0:primary", **_SECONDARY}
_STORE, _LOAD = {"in": ""}, {"out": ""}
_TRANSFER_TYPES = {"in": "GPU_to_CPU", "out": "CPU_to_GPU"}


def _of_memory(
    name: str,
    direction: Mapping[str, str] | None = None,
    buckets: BucketFamily | None = None,
) -> Alias:
    """Returns a name of what our tier `cpu` does, without labels of ours."""
    values: dict[str, Mapping[str, str]] = {"tier": {"cpu": ""}}
    if direction is not None:
        values["direction"] = direction
    return Alias(
        name=f"vllm:kv_offload_{name}",
        values=values,
        drop=frozenset(values),
        buckets=buckets,
    )


def _by_type(name: str, buckets: BucketFamily | None = None) -> Alias:
    """Returns an older name of both directions, which vLLM still has."""
    return Alias(
        name=f"vllm:kv_offload_{name}",
        values={"tier": {"cpu": ""}, "direction": _TRANSFER_TYPES},
        rename={"direction": "transfer_type"},
        drop=frozenset({"tier"}),
        buckets=buckets,
    )


def _of_tiers(
    name: str,
    tiers: Mapping[str, str] = _SECONDARY,
    buckets: BucketFamily | None = None,
    **values: Mapping[str, str],
) -> Alias:
    """Returns a name with vLLM's tiers; labels with `values` are left out."""
    return Alias(
        name=f"vllm:kv_offload_tiering_{name}",
        values={"tier": tiers, **values},
        drop=frozenset(values),
        buckets=buckets,
    )


NAMES: Mapping[str, tuple[Alias, ...]] = {
    "hookline_kv_tier_info": (
        Alias(
            name="vllm:kv_offload_config_info",
            values={"tier": {"cpu": ""}},
            rename={
                "blocks": "cpu_num_chunks",
                "block_bytes": "cpu_kv_bytes_per_chunk",
                "capacity_tokens": "cpu_capacity_tokens_at_max_len",
            },
            drop=frozenset({"tier"}),
            add={"cpu_blocks_per_chunk": "1"},
        ),
    ),
    "hookline_kv_transfer_lookup_seconds": (
        Alias(
            name="vllm:kv_offload_lookup_sync_delay_seconds",
            buckets=BucketFamily.VLLM_OFFLOAD_LOOKUP,
        ),
    ),
    "hookline_kv_tier_lookup_seconds": (
        _of_tiers(
            "lookup_sync_delay_seconds", _TIERS, BucketFamily.VLLM_OFFLOAD_LOOKUP
        ),
    ),
    "hookline_kv_tier_allocation_blocks": (
        _of_memory("cpu_allocation_size", buckets=BucketFamily.VLLM_OFFLOAD_BLOCKS),
    ),
    "hookline_kv_tier_dropped_stores": (
        _of_memory("allocation_failure"),
        _of_tiers("backpressure_stores_dropped"),
    ),
    "hookline_kv_tier_dropped_blocks": (
        _of_tiers("backpressure_blocks_dropped", reason={"no_room": ""}),
    ),
    "hookline_kv_tier_moved_bytes": (
        _of_memory("store_bytes", _STORE),
        _of_memory("load_bytes", _LOAD),
        _by_type("total_bytes"),
        _of_tiers("write_bytes", direction=_STORE),
        _of_tiers("read_bytes", direction=_LOAD),
    ),
    "hookline_kv_tier_moved_seconds": (
        _of_memory("store_time", _STORE),
        _of_memory("load_time", _LOAD),
        _by_type("total_time"),
        _of_tiers("write_time", direction=_STORE),
        _of_tiers("read_time", direction=_LOAD),
    ),
    "hookline_kv_tier_move_size_bytes": (
        _of_memory("store_size", _STORE, BucketFamily.VLLM_OFFLOAD_BYTES),
        _of_memory("load_size", _LOAD, BucketFamily.VLLM_OFFLOAD_BYTES),
        _by_type("size", BucketFamily.VLLM_OFFLOAD_BYTES),
    ),
    "hookline_kv_tier_move_duration_seconds": (
        _of_tiers(
            "promotion_latency_seconds",
            buckets=BucketFamily.VLLM_PROMOTION_LATENCY,
            direction=_LOAD,
        ),
    ),
    "hookline_kv_tier_failed_moves": (
        _of_tiers("cascade_job_failures", direction=_STORE),
        _of_tiers("promotion_job_failures", direction=_LOAD),
    ),
    "hookline_kv_tier_moves_in_flight": (
        _of_tiers("active_cascade_jobs", direction=_STORE),
        _of_tiers("active_promotion_jobs", direction=_LOAD),
    ),
    "hookline_kv_tier_moving_ratio": (
        _of_memory("cpu_cache_usage_perc", {**_STORE, **_LOAD}),
        _of_memory("cpu_cache_write_usage_perc", _STORE),
        _of_memory("cpu_cache_read_usage_perc", _LOAD),
    ),
    "vllm_tier_chunks": (
        _of_tiers("chunk_queries", _TIERS, result={"hit": "", "miss": ""}),
        _of_tiers("chunk_hits", _TIERS, result={"hit": ""}),
    ),
}


def _chunks(state: StateReading) -> Iterable[Point]:
    block_size = state.facts.block_size
    for name, tier in transfers_of(state.stats).tiers.items():
        yield (name, "hit"), tier.hit_tokens // block_size, 1
        yield (name, "miss"), tier.missed_tokens // block_size, 1


ONLY_THERE: tuple[Metric, ...] = (
    Metric(
        name="vllm_tier_chunks",
        kind=Kind.COUNTER,
        unit="blocks",
        help="KV blocks looked up in a tier beyond those found in earlier tiers, by "
        "result.",
        labels=(Label("tier"), Label("result", ("hit", "miss"))),
        is_own=False,
        value=Reading(StateReading, _chunks),
    ),
)

_AT_ONCE = "look-ups are answered at once, never deferred"
_NOT_THROUGH_MEMORY = (
    "blocks on disk are loaded straight into the KV cache, and writes to disk have a "
    "copy of their own, so neither holds host memory"
)
_OTHER_CONNECTOR = (
    "this is another connector of vLLM's; see hookline_kv_tier_* of cpu_offload"
)

NOT_APPLICABLE: Mapping[str, str] = {
    "vllm:kv_offload_lookup_async_delay_seconds": _AT_ONCE,
    "vllm:kv_offload_tiering_lookup_async_delay_seconds": _AT_ONCE,
    "vllm:kv_offload_stores_skipped_total": "there is no threshold of reuse for stores",
    "vllm:kv_offload_tiering_promotion_allocation_failures_total": _NOT_THROUGH_MEMORY,
    "vllm:kv_offload_tiering_primary_write_usage_perc": _NOT_THROUGH_MEMORY,
    "vllm:kv_offload_tiering_primary_read_usage_perc": _NOT_THROUGH_MEMORY,
    "vllm:kv_offload_tiering_backpressure_store_latency_ema": "writes to disk are "
    "dropped by the bytes that wait, not by their latency; see "
    "hookline_kv_tier_move_duration_seconds",
    "vllm:simple_kv_offload_save_outcomes_total": _OTHER_CONNECTOR,
    "vllm:simple_kv_offload_load_blocks_total": _OTHER_CONNECTOR,
    "vllm:simple_kv_offload_used_blocks": _OTHER_CONNECTOR,
    "vllm:simple_kv_offload_pending_store_blocks": _OTHER_CONNECTOR,
    "vllm:simple_kv_offload_info": _OTHER_CONNECTOR,
}
