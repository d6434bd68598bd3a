"""Metrics from hook payloads, with every expected number."""

import dataclasses
import threading
from functools import cache

import pytest

from hookline.clock import VirtualClock
from hookline.config import (
    CacheConfig,
    DetailedTrace,
    EngineConfig,
    ObserverConfig,
)
from hookline.config.extensions import GRAMMARS, KV_TRANSFER
from hookline.events import StepRecord, VerifiedDrafts
from hookline.exceptions import ConfigError
from hookline.finish_cause import Aborted, Failed, Rejected
from hookline.front_end_parts import PlacementStats, SleepOperation, TransportStats
from hookline.payloads import (
    EngineFailed,
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
    PageStats,
)
from hookline.request import Origin, RequestFacts, Slo
from hookline.request_limits import LIMITS
from hookline.sampling_params import SamplingParams
from hookline.startup_timer import StartupPhase
from hookline.stats.finished_request import FinishedGroup
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.scheduler_stats import (
    EngineTotals,
    PrefixCacheCounts,
    Residue,
    SchedulerStats,
    TenantStats,
)
from hookline.stats.step_work import (
    BlockEviction,
    EvictionWork,
    Execution,
    RankUse,
    StepWork,
    ThreadUse,
)
from hookline.step import ModelCost
from hookline.structured_outputs import StructuredOutputsParams
from hookline_metrics import CATALOGUE, HistogramValue, Recorder
from hookline_metrics.adapters import (
    LORA,
    AdapterCounts,
    AdapterLevel,
    AdapterLoad,
    AdapterResidence,
    AdapterUsage,
    AdapterWait,
    LoraNews,
    LoraStats,
    LoraTotals,
)
from hookline_metrics.config import MetricsConfig
from hookline_metrics.connector_events import (
    ConnectorLookup,
    TierAllocation,
    TierLookup,
    TierMove,
)
from hookline_metrics.drafts import DRAFT_USE, DraftUse
from hookline_metrics.expert_stats import ExpertStats
from hookline_metrics.front_end_parts import (
    ApiKeyStats,
    ConnectionStats,
    EngineHealth,
    EngineLink,
    EventLoopStats,
    IgnoredStats,
    LinkStats,
    LogStats,
    MemoryStats,
    ObserverStats,
    ParserFailures,
    ProcessStats,
    ResponseStoreStats,
    ScalingStats,
    StreamStats,
    TextQueueStats,
    TextStats,
    UnknownFieldStats,
)
from hookline_metrics.grammars import (
    GrammarCompiling,
    GrammarNews,
    GrammarStats,
    GrammarUse,
)
from hookline_metrics.metric import Scope
from hookline_metrics.slo import Phase
from hookline_metrics.transfer_stats import (
    KVLoad,
    TierStats,
    TransferNews,
    TransferStats,
)
from hookline_processes.usage import RoleUsage
from hookline_registry import LaneStats
from hookline_testing.payloads import (
    FACTS,
    FINISHED,
    MILLISECOND,
    RECORD,
    make_started,
    make_state,
    make_step,
)
from hookline_testing.table_walk import for_each_row

EVERYTHING = EngineConfig(
    cache=CacheConfig(residency_sample=0.5),
    extensions={LORA: {}},
    observers=ObserverConfig(detailed_traces=(DetailedTrace.ALL,)),
    sections={"metrics": MetricsConfig(dialects=("hookline",), max_tenants=2)},
)
"""Every feature that brings metrics is on."""

Numbers = dict[tuple[str, ...], object]
"""By label values after model_name and engine; a histogram is what `digest` makes."""

ABORTED = dataclasses.replace(
    FINISHED,
    request_id=2,
    cause=Aborted(""),
    params=SamplingParams(max_tokens=None),
    prompt_tokens=20,
    local_cached_tokens=0,
    external_cached_tokens=0,
    output_tokens=0,
    preemptions=0,
    preparation_seconds=0.25,
    queue_seconds=0.25,
    prefill_seconds=None,
    decode_seconds=None,
    inference_seconds=None,
    preempted_seconds=0.0,
    last_scheduled_seconds=None,
    last_prefill_seconds=None,
    last_decode_seconds=None,
    last_inference_seconds=None,
    ttft_seconds=None,
    e2e_seconds=0.75,
    tpot_seconds=None,
)

JUDGED = dataclasses.replace(
    FINISHED,
    facts=RequestFacts(tenant="acme", lora="legal", slo=Slo(ttft=1.0)),
    draft_tokens=7,
    accepted_tokens=4,
    forward_seconds=3.0,
    execute_seconds=4.0,
    corrupted_by=Origin.MODEL,
)

REJECTED = dataclasses.replace(
    ABORTED,
    request_id=0,
    cause=Rejected("limit_exceeded", "17 stop strings", limit="stop"),
)

LIMITED = dataclasses.replace(
    REJECTED,
    facts=RequestFacts(tenant="acme", lora="anything"),
    cause=Rejected("rate_limit_exceeded", "", limit="tokens_per_minute"),
)

THIS = dataclasses.replace(
    FACTS,
    model=dataclasses.replace(
        FACTS.model,
        cost=ModelCost(
            flops_per_token=100.0,
            flops_per_pair=10.0,
            flops_per_sample=1.0,
            weight_bytes=1000,
            kv_bytes_per_token=8,
        ),
    ),
    startup=(StartupPhase(name="load weights", started_at=0, seconds=2.5),),
    tensor_parallel_size=2,
    pipeline_parallel_size=2,
)

STEP = StepRecord(
    step=1,
    engine_index=0,
    started_at=0,
    scheduled_at=1 * MILLISECOND,
    executed_at=9 * MILLISECOND,
    ended_at=10 * MILLISECOND,
    request_tokens=[(1, 12), (2, 3), (3, 1)],
    sampled_requests=3,
    verified=VerifiedDrafts(1, 2, 1, (1,)),
    evictions=EvictionWork(2, 20_000),
    sections={
        DRAFT_USE.name: DraftUse(2 * MILLISECOND, 5, {"too_many": 1}),
        "grammars": GrammarUse(
            fill_ns=3 * MILLISECOND, apply_ns=1 * MILLISECOND, forced_tokens=4
        ),
    },
    work=StepWork(
        prefill_requests=1,
        prefill_tokens=12,
        decode_requests=2,
        decode_tokens=4,
        context_tokens=50,
        attention_pairs=128,
    ),
    execution=Execution(
        forward_ns=6 * MILLISECOND,
        kernels_compiling=True,
        thread_use=ThreadUse(
            threads=2,
            barrier_wait_ns=3 * MILLISECOND,
            running_ns=250 * MILLISECOND,
            preempted_ns=125 * MILLISECOND,
            throttled_ns=500 * MILLISECOND,
        ),
        rank_use=RankUse(
            exchange_ns=2 * MILLISECOND,
            handover_ns=1 * MILLISECOND,
            expert_tokens=(12, 4, 8, 8),
            expert_busiest_tokens=40,
        ),
    ),
)

FRONT_END = FrontEndChanged(
    parts=(
        LogStats(unread=3, repeated=7),
        ConnectionStats(
            open=7,
            maximum=100,
            accept_errors=2,
            closed=(("evicted", 5), ("refused", 1)),
        ),
        TextStats(
            queues=(
                TextQueueStats(
                    queue="chat", waiting=2, jobs=5, seconds=0.25, exceeded=1, crashed=3
                ),
            )
        ),
        ParserFailures(
            failures=(("tool", "hermes", 4), ("reasoning", "qwen3", 0)),
            repairs=(("tool", "hermes", "escape", 2),),
        ),
        StreamStats(keep_alives=5),
        UnknownFieldStats(fields=(("user", 4), ("other", 1))),
        IgnoredStats(elements=(("messages", "tool.web_search", 2),)),
        ResponseStoreStats(entries=3, bytes=4096, evictions=(("age", 2),)),
        ApiKeyStats(stale_seconds=90.0),
        EventLoopStats(lag_seconds=0.25, stalls=2),
        MemoryStats(headroom_bytes=4096, used_bytes=1024, kills=2),
        ProcessStats(
            roles=(
                RoleUsage(
                    role="text",
                    engine="0",
                    processes=2,
                    resident_bytes=8192,
                    cpu_seconds=1.5,
                    open_fds=20,
                    threads=6,
                    started_at=1000.0,
                ),
            )
        ),
        TransportStats(dropped=3),
        PlacementStats(requests=(("0", "load", 4), ("1", "prefix", 2))),
        ScalingStats(
            serving=2,
            starting=1,
            leaving=3,
            wanted=4,
            minimum=1,
            maximum=8,
            decisions=(("demand", 2), ("request", 1)),
            added=5,
            removed=6,
            failed=7,
            start_seconds=2.5,
        ),
        ObserverStats(
            front_ends=2,
            waited_seconds=0.1,
            dropped=3,
            restarts=1,
            left_out=("own:Logger",),
        ),
        LinkStats(
            engines=(
                EngineLink(
                    engine_index=1,
                    host="node-b",
                    former_hosts=("node-a",),
                    is_up=True,
                    joined=2,
                    lost=1,
                    round_trip_seconds=0.25,
                ),
                EngineLink(engine_index=2),
            ),
            refused=6,
        ),
        SleepOperation(operation="sleep", in_flight=1),
        SleepOperation(operation="wake_up", in_flight=1),
        SleepOperation(operation="sleep", in_flight=0, seconds=2.5),
        EngineHealth(
            engine_index=0,
            stalled_seconds=3.0,
            reason="it sends nothing",
            unheard=0,
            oldest_unheard_seconds=0.0,
        ),
        EngineHealth(
            engine_index=0,
            stalled_seconds=None,
            reason="",
            unheard=0,
            oldest_unheard_seconds=0.0,
        ),
    )
)

ANSWERED = HttpAnswered(
    exchanges=(
        HttpExchange(
            route="/v1/completions",
            method="POST",
            status=200,
            seconds=0.2,
            request_bytes=150,
            response_bytes=5000,
        ),
        HttpExchange(
            route="unmatched",
            method="GET",
            status=404,
            seconds=0.002,
            request_bytes=0,
            response_bytes=90,
        ),
    ),
    in_flight={("/v1/completions", "POST"): 3},
    pages=(PageStats(logger="prometheus", hung=1, raised=2, timed_out=3, refused=4),),
)

BUSY = SchedulerStats(
    sections={
        "experts": ExpertStats(
            tokens=(12, 4, 8, 8),
            busiest_tokens=40,
            dummy_steps=3,
            wait_ns=5 * MILLISECOND,
        ),
        "grammars": GrammarStats(
            hits=7,
            misses=3,
            ended={"compiled": 2, "limit": 1},
            cache_bytes=4096,
        ),
        KV_TRANSFER: TransferStats(
            loading=1,
            saving=2,
            closing=3,
            held_blocks=4,
            oldest_load_at=5 * MILLISECOND,
            oldest_save_at=3 * MILLISECOND,
            breaker_open=True,
            loads=5,
            saves=6,
            load_ns=7 * MILLISECOND,
            save_ns=8 * MILLISECOND,
            loaded_bytes=900,
            saved_bytes=1000,
            recomputed_tokens=11,
            expired_blocks=12,
            reclaimed_blocks=14,
            released_blocks=17,
            transferred_tokens=18,
            late_reports=13,
            waiting_to_load=15,
            loaded_waiting=16,
            failures={
                "load": {"deadline": 2, "bad_checksum": 1},
                "poll": {"raised": 3},
            },
            tiers={
                "cpu": TierStats(
                    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1_500_000_000, 250_000_000),
                    *(11, 3, 4, 5, 6, 7, 1, 2),
                )
            },
            tier_hits={"cpu": 1},
            external_cache=PrefixCacheCounts(1, 20, 1),
        ),
        LORA: LoraStats(
            known=6,
            slots=4,
            slots_used=2,
            in_memory=3,
            memory_bytes=512,
            totals=LoraTotals(
                loads=7, load_failures=2, slot_evictions=3, memory_evictions=1
            ),
            adapters={
                "legal": AdapterCounts(running=1, queued=1, loading=2, no_slot=1),
                "none": AdapterCounts(loading=1),
            },
            others=AdapterCounts(loading=1),
        ),
    },
    running=2,
    waiting=3,
    held={"grammar": 4, "remote_kv": 5, "adapter": 6},
    kv_blocks=40,
    kv_blocks_used=10,
    kv_blocks_cached=6,
    oldest_waiting_at=4 * MILLISECOND,
    oldest_running_at=2 * MILLISECOND,
    waiting_tokens=77,
    tenants={"acme": TenantStats(3, 0.0), "": TenantStats(1, 2.5)},
    preempted=1,
    evicted_blocks=3,
    totals=EngineTotals(
        prefix_cache=PrefixCacheCounts(2, 32, 4),
        received=14,
        preemptions=2,
        computed_tokens=50,
        recomputed_tokens=9,
        discarded_tokens=4,
        residue=Residue(1, 2, 3),
        preempted_prompt_tokens=24,
        preempted_output_tokens=5,
    ),
)

EARLIER = SchedulerStats(running=9, kv_blocks=40, totals=EngineTotals(received=3))
"""The later state has to replace it."""

FIRST_STEP = IterationStats(
    prompt_tokens_computed=7,
    prompt_tokens_local=4,
    prompt_tokens_external=1,
    prompt_tokens_transferred=2,
    generation_tokens=6,
    preemptions=2,
    recomputed_tokens=9,
    first_scheduled=(
        FirstScheduled(queue_seconds=0.25),
        FirstScheduled(queue_seconds=0.5),
    ),
    first_tokens=(
        FirstToken(seconds=0.02),
        FirstToken(seconds=0.3, prefill_seconds=1.0),
    ),
    inter_token_seconds=((0.01, 3), (0.04, 1)),
    finished=(JUDGED,),
    finished_groups=(FinishedGroup(requests=(FINISHED, FINISHED)),),
    evictions=(
        BlockEviction(
            3000 * MILLISECOND,
            1500 * MILLISECOND,
            (20 * MILLISECOND, 30 * MILLISECOND),
        ),
    ),
    sections={
        GRAMMARS: GrammarNews([GrammarCompiling(0.008), GrammarCompiling(0.5)]),
        KV_TRANSFER: TransferNews(
            loads=(KVLoad(4 * MILLISECOND, 32), KVLoad(500 * MILLISECOND)),
            events=(
                ConnectorLookup(100_000),
                TierLookup("cpu", 50_000),
                TierAllocation("cpu", 3),
                TierMove("cpu", "in", 12_000, 4 * MILLISECOND),
            ),
        ),
        LORA: LoraNews(
            waits=[
                AdapterWait(1, "legal", 0, 2000 * MILLISECOND, 1.5, "sql"),
                AdapterWait(2, "legal", 0, 250 * MILLISECOND, 0.25),
            ],
            loads=[
                AdapterLoad("legal", "ab", 1.5, 512),
                AdapterLoad("sql", "cd", error="gone"),
            ],
            usages=[AdapterUsage(1, "legal", 12.5), AdapterUsage(3, "legal", 2.0)],
            residency={
                "legal": AdapterResidence(AdapterLevel.SLOT, is_pinned=True, rank=16),
                "sql": AdapterResidence(AdapterLevel.MEMORY, is_pinned=False, rank=8),
                "old": AdapterResidence(AdapterLevel.DISK, is_pinned=False, rank=8),
            },
        ),
    },
)

OUTSIDE_STEPS = IterationStats(
    finished=(ABORTED, REJECTED, LIMITED),
    finished_groups=(FinishedGroup(requests=(ABORTED,)),),
    moved=3,
    migrated_in=2,
)

LANE = LaneStats(
    name="prometheus",
    depth=3,
    delivered=100,
    dropped=7,
    errors=2,
    busy_seconds=1.5,
    breaker="open",
    last_error="ValueError",
)

TOLD_AT_FIRST = {
    "hookline_adapter_requests",
    "hookline_label_values_folded",
    "hookline_kv_transfer_failures",
    "hookline_requests_rejected",
}
"""Some of their series, though others may come."""

EXPECTED: dict[str, Numbers] = {
    "hookline_engine_info": {
        (
            *("LlamaForCausalLM", "float32", "float32", "16", "40", "100", "8", "64"),
            *("true", "simulated", "2", "2", "avx512", "0.1.0", "0123456789ab"),
        ): 1
    },
    "hookline_sampling_defaults_info": {("0.6", *[""] * 7, "a file"): 1},
    "hookline_engine_sleep_state": {
        ("awake",): 1,
        ("kv_cache_released",): 0,
        ("weights_released",): 0,
    },
    "hookline_requests_running": {(): 2},
    "hookline_requests_waiting": {
        ("capacity",): 3,
        ("grammar",): 4,
        ("remote_kv",): 5,
        ("adapter",): 6,
    },
    "hookline_oldest_waiting_age_seconds": {(): 0.516},
    "hookline_oldest_running_age_seconds": {(): 0.518},
    "hookline_kv_cache_usage_ratio": {(): 0.25},
    "hookline_kv_blocks": {("used",): 10, ("cached",): 6, ("free",): 24},
    "hookline_conservation_residue": {
        ("requests",): 1,
        ("tokens",): 2,
        ("blocks",): 3,
    },
    "hookline_requests_received": {(): 14},
    "hookline_preemptions": {(): 2},
    "hookline_preempted_tokens": {("prompt",): 24, ("output",): 5},
    "hookline_requests_preempted": {(): 1},
    "hookline_prefix_cache_evicted_tokens": {(): 48},
    "hookline_prefix_cache_eviction_seconds": {(): ({0.000025: 1}, 0.00002)},
    "hookline_kv_transfer_load_seconds": {(): ({0.005: 1, 0.5: 1}, 0.504)},
    "hookline_kv_tier_used_tokens": {("cpu",): 16},
    "hookline_kv_tier_limit_tokens": {("cpu",): 32},
    "hookline_prefix_cache_queried_tokens": {(): 32},
    "hookline_prefix_cache_hit_tokens": {(): 4},
    "hookline_cached_tokens": {
        ("device",): 4,
        ("host",): 1,
        ("disk",): 0,
        ("p2p",): 0,
        ("unspecified",): 0,
    },
    "hookline_computed_tokens": {(): 50},
    "hookline_recomputed_tokens": {(): 9},
    "hookline_discarded_tokens": {(): 4},
    "hookline_step_seconds": {
        ("schedule",): ({0.001: 1}, 0.001),
        ("execute",): ({0.01: 1}, 0.008),
        ("update",): ({0.001: 1}, 0.001),
    },
    "hookline_step_tokens": {(): ({16: 1}, 16)},
    "hookline_prompt_tokens": {
        ("computed",): 7,
        ("local_cache",): 4,
        ("external",): 1,
        ("transferred",): 2,
    },
    "hookline_generation_tokens": {(): 6},
    "hookline_time_to_first_token_seconds": {(): ({0.02: 1, 0.5: 1}, 0.32)},
    "hookline_inter_token_seconds": {(): ({0.01: 3, 0.05: 1}, 0.07)},
    "hookline_requests_finished": {
        ("stop",): 1,
        ("length",): 0,
        ("abort",): 1,
        ("error",): 0,
        ("rejected",): 2,
        ("timeout",): 0,
        ("prefilled",): 0,
    },
    "hookline_request_prompt_tokens": {(): ({20: 2}, 32)},
    "hookline_request_generation_tokens": {(): ({1: 1, 5: 1}, 5)},
    "hookline_request_limit_tokens": {(): ({50: 1}, 30)},
    "hookline_request_prefill_computed_tokens": {(): ({10: 1}, 7)},
    "hookline_request_group_max_generation_tokens": {(): ({1: 1, 5: 1}, 5)},
    "hookline_request_group_prompt_tokens": {
        ("computed",): 7,
        ("local_cache",): 4,
        ("external",): 1,
        ("transferred",): 0,
    },
    "hookline_request_completions": {(): ({1: 1, 2: 1}, 3)},
    "hookline_request_preemptions": {(): ({1: 1, 2: 1}, 2)},
    "hookline_request_e2e_seconds": {(): ({0.8: 1, 10: 1}, 6.75)},
    "hookline_request_preparation_seconds": {(): ({0.3: 1}, 0.25)},
    "hookline_request_queue_seconds": {(): ({0.3: 1, 0.5: 1}, 0.75)},
    "hookline_request_last_scheduled_seconds": {(): ({1.5: 1}, 1.25)},
    "hookline_request_last_prefill_seconds": {(): ({0.3: 1}, 0.25)},
    "hookline_request_last_decode_seconds": {(): ({2: 1}, 2)},
    "hookline_request_last_inference_seconds": {(): ({2.5: 1}, 2.25)},
    "hookline_request_prefill_seconds": {(): ({1: 1}, 1)},
    "hookline_request_decode_seconds": {(): ({5: 1}, 4)},
    "hookline_request_inference_seconds": {(): ({5: 1}, 5)},
    "hookline_request_preempted_seconds": {(): ({0.8: 1}, 0.75)},
    "hookline_request_time_per_output_token_seconds": {(): ({1: 1}, 1)},
    "hookline_external_cache_queried_tokens": {(): 20},
    "hookline_external_cache_hit_tokens": {(): 1},
    "hookline_waiting_tokens": {(): 77},
    "hookline_kv_tokens": {("used",): 160, ("cached",): 96, ("free",): 384},
    "hookline_kv_capacity_tokens": {(): 640},
    "hookline_kv_capacity_bytes": {(): 5120},
    "hookline_kv_block_size_tokens": {(): 16},
    "hookline_kv_pool_blocks": {(): 40},
    "hookline_context_length_tokens": {(): 100},
    "hookline_startup_seconds": {("load weights",): 2.5},
    "hookline_kv_block_lifetime_seconds": {(): ({5: 1}, 3)},
    "hookline_kv_block_idle_before_evict_seconds": {(): ({2: 1}, 1.5)},
    "hookline_kv_block_reuse_gap_seconds": {(): ({0.02: 1, 0.05: 1}, 0.05)},
    "hookline_engine_up": {(): 1},
    "hookline_engine_stalled": {(): 0},
    "hookline_engine_stall_seconds": {(): 0},
    "hookline_engine_stalls": {(): 1},
    "hookline_engine_restarts": {
        (reason,): 0
        for reason in (
            *("failed", "crashed", "exited", "memory", "stalled"),
            *("start", "lost", "peer"),
        )
    },
    "hookline_last_step_age_seconds": {(): 2.5},
    "hookline_snapshot_age_seconds": {(): 0.5},
    "hookline_generation_tokens_per_second": {(): 6},
    "hookline_prefix_cache_hit_ratio": {(): 0.125},
    "hookline_slo_attainment_ratio": {(): 0},
    "hookline_goodput_requests_per_second": {(): 0},
    "hookline_kv_transfer_in_flight": {("load",): 1, ("save",): 2},
    "hookline_kv_transfer_oldest_age_seconds": {("load",): 0.515, ("save",): 0.517},
    "hookline_kv_transfer_closing": {(): 3},
    "hookline_kv_transfer_held_blocks": {(): 4},
    "hookline_kv_transfer_ended": {("load",): 5, ("save",): 6},
    "hookline_kv_transfer_seconds": {("load",): 0.007, ("save",): 0.008},
    "hookline_kv_transfer_bytes": {("load",): 900, ("save",): 1000},
    "hookline_kv_transfer_failures": {
        ("load", "raised"): 0,
        ("load", "deadline"): 2,
        ("load", "aborted"): 0,
        ("load", "unreported"): 0,
        ("load", "incomplete"): 0,
        ("save", "raised"): 0,
        ("save", "deadline"): 0,
        ("load", "bad_checksum"): 1,
        ("poll", "raised"): 3,
    },
    "hookline_kv_transfer_breaker_open": {(): 1},
    "hookline_kv_transfer_late_reports": {(): 13},
    "hookline_kv_transfer_recomputed_tokens": {(): 11},
    "hookline_kv_transfer_expired_blocks": {(): 12},
    "hookline_kv_transfer_reclaimed_blocks": {(): 14},
    "hookline_kv_transfer_released_blocks": {(): 17},
    "hookline_transferred_tokens": {(): 18},
    "hookline_kv_tier_used_blocks": {("cpu",): 1},
    "hookline_kv_tier_limit_blocks": {("cpu",): 2},
    "hookline_kv_tier_used_bytes": {("cpu",): 3},
    "hookline_kv_tier_limit_bytes": {("cpu",): 4},
    "hookline_kv_tier_lookup_tokens": {("cpu", "hit"): 5, ("cpu", "miss"): 6},
    "hookline_kv_tier_moved_bytes": {("cpu", "in"): 7, ("cpu", "out"): 8},
    "hookline_kv_tier_moved_seconds": {("cpu", "in"): 1.5, ("cpu", "out"): 0.25},
    "hookline_kv_tier_evicted_blocks": {("cpu",): 9},
    "hookline_kv_tier_dropped_blocks": {("cpu", "no_room"): 7, ("cpu", "failed"): 3},
    "hookline_kv_tier_dropped_stores": {("cpu",): 11},
    "hookline_kv_tier_failed_moves": {("cpu", "in"): 4, ("cpu", "out"): 5},
    "hookline_kv_tier_moves_in_flight": {("cpu", "in"): 6, ("cpu", "out"): 7},
    "hookline_kv_tier_moving_ratio": {("cpu", "in"): 0.5, ("cpu", "out"): 1.0},
    "hookline_kv_tier_info": {("cpu", "2", "2", "32"): 1},
    "hookline_kv_transfer_requests": {
        ("waiting_to_start",): 15,
        ("in_progress",): 5,
        ("completed_waiting",): 16,
    },
    "hookline_kv_transfer_lookup_seconds": {(): ({0.0001: 1}, 0.0001)},
    "hookline_kv_tier_lookup_seconds": {("cpu",): ({0.00005: 1}, 0.00005)},
    "hookline_kv_tier_allocation_blocks": {("cpu",): ({4: 1}, 3)},
    "hookline_kv_tier_move_size_bytes": {("cpu", "in"): ({20_000: 1}, 12_000)},
    "hookline_kv_tier_move_duration_seconds": {
        ("cpu", "in", "success"): ({0.005: 1}, 0.004)
    },
    "hookline_spec_decode_num_drafts": {(): 1},
    "hookline_spec_decode_num_draft_tokens": {(): 2},
    "hookline_spec_decode_num_accepted_tokens": {(): 1},
    "hookline_spec_decode_num_accepted_tokens_per_pos": {("0",): 1},
    "hookline_spec_decode_draft_seconds": {(): 0.002},
    "hookline_spec_decode_verify_seconds": {(): 0.006},
    "hookline_spec_decode_proposer_failures": {
        ("raised",): 0,
        ("malformed",): 0,
        ("too_many",): 1,
        ("out_of_vocabulary",): 0,
        ("slow",): 0,
        ("hung",): 0,
    },
    "hookline_structured_output_grammars": {
        ("compiled",): 2,
        ("loosened",): 0,
        ("refused",): 0,
        ("limit",): 1,
        ("failed",): 0,
    },
    "hookline_structured_output_compile_seconds": {(): ({0.01: 1, 0.5: 1}, 0.508)},
    "hookline_structured_output_cache_lookups": {("hit",): 7, ("miss",): 3},
    "hookline_structured_output_cache_bytes": {(): 4096},
    "hookline_structured_output_mask_fill_seconds": {(): 0.003},
    "hookline_structured_output_mask_apply_seconds": {(): 0.001},
    "hookline_structured_output_forced_tokens": {(): 4},
    "hookline_spec_decode_acceptance_ratio": {(): 0.5},
    "hookline_spec_decode_mean_accepted_length": {(): 2},
    "hookline_spec_decode_estimated_speedup_ratio": {},
    "hookline_spec_decode_num_speculative_tokens": {(): 5},
    "hookline_step_requests": {(): ({8: 1}, 3)},
    "hookline_scheduled_tokens": {("prefill",): 12, ("decode",): 4},
    "hookline_model_forward_seconds": {(): 0.006},
    "hookline_kernels_compiling": {(): 1},
    "hookline_worker_threads": {(): 2},
    "hookline_worker_barrier_wait_seconds": {(): 0.003},
    "hookline_worker_thread_seconds": {("running",): 0.25, ("preempted",): 0.125},
    "hookline_worker_throttled_seconds": {(): 0.5},
    "hookline_rank_exchange_seconds": {(): 0.002},
    "hookline_rank_handover_seconds": {(): 0.001},
    "hookline_expert_tokens": {("0",): 12, ("1",): 4, ("2",): 8, ("3",): 8},
    "hookline_expert_busiest_tokens": {(): 40},
    "hookline_expert_wait_seconds": {(): 0.005},
    "hookline_dummy_steps": {(): 3},
    "hookline_pipeline_stage_seconds": {(): 2 * 0.008},
    "hookline_estimated_flops": {(): 1600 + 1280 + 5},
    "hookline_estimated_read_bytes": {(): 1400},
    "hookline_estimated_write_bytes": {(): 128},
    "hookline_request_model_forward_seconds": {(): ({5: 1}, 3)},
    "hookline_request_model_execute_seconds": {(): ({5: 1}, 4)},
    "hookline_requests_rejected": {
        ("overloaded",): 0,
        ("overloaded_tokens",): 0,
        ("limit_exceeded",): 1,
        ("rate_limit_exceeded",): 1,
    },
    "hookline_requests_corrupted": {
        (origin.value,): int(origin is Origin.MODEL) for origin in Origin
    },
    "hookline_requests_over_limit": {
        (limit.name,): int(limit.name == "stop") for limit in LIMITS
    },
    "hookline_slo_requests": {("met",): 0, ("missed",): 1},
    "hookline_slo_misses": {
        (objective, phase.value): int((objective, phase) == ("ttft", Phase.PREFILL))
        for objective in ("ttft", "tpot", "e2e", "success")
        for phase in Phase
    },
    "hookline_tenant_requests_finished": {
        ("acme", "stop"): 1,
        ("acme", "rejected"): 1,
        ("none", "abort"): 1,
        ("none", "rejected"): 1,
    },
    "hookline_tenant_requests_limited": {("acme", "tokens_per_minute"): 1},
    "hookline_tenant_prompt_tokens": {("acme",): 12, ("none",): 20},
    "hookline_tenant_cached_tokens": {("acme",): 5, ("none",): 0},
    "hookline_tenant_generation_tokens": {("acme",): 5, ("none",): 0},
    "hookline_tenant_time_to_first_token_seconds": {("acme",): ({1.5: 1}, 1.5)},
    "hookline_tenant_request_e2e_seconds": {
        ("acme",): ({10: 1}, 6),
        ("none",): ({0.8: 1}, 0.75),
    },
    "hookline_adapter_requests": {
        ("legal", "running"): 1,
        ("legal", "queued"): 1,
        ("legal", "loading"): 2,
        ("legal", "no_slot"): 1,
        ("other", "loading"): 3,
        ("none", "running"): 1,
        ("none", "queued"): 11,
    },
    "hookline_adapter_requests_finished": {
        ("legal", "stop"): 1,
        ("none", "abort"): 1,
        ("none", "rejected"): 1,
        ("other", "rejected"): 1,
    },
    "hookline_adapter_prompt_tokens": {("legal",): 12, ("none",): 20},
    "hookline_adapter_cached_tokens": {("legal",): 5, ("none",): 0},
    "hookline_adapter_generation_tokens": {("legal",): 5, ("none",): 0},
    "hookline_adapter_draft_tokens": {
        ("legal", "accepted"): 4,
        ("legal", "rejected"): 3,
    },
    "hookline_adapter_time_to_first_token_seconds": {("legal",): ({1.5: 1}, 1.5)},
    "hookline_adapter_time_per_output_token_seconds": {("legal",): ({1: 1}, 1)},
    "hookline_adapter_queue_seconds": {
        ("legal",): ({0.5: 1}, 0.5),
        ("none",): ({0.3: 1}, 0.25),
    },
    "hookline_adapter_wait_seconds": {
        ("legal", "loading"): ({0.3: 1, 1.5: 1}, 1.75),
        ("legal", "no_slot"): ({0.5: 1}, 0.5),
    },
    "hookline_adapter_slo_misses": {("legal", "ttft"): 1},
    "hookline_adapter_kv_block_seconds": {("legal",): 14.5},
    "hookline_adapter_loaded": {
        ("legal", "gpu", "true", "16"): 1,
        ("sql", "cpu", "false", "8"): 1,
    },
    "hookline_adapters": {("gpu",): 2, ("cpu",): 1, ("disk",): 3},
    "hookline_adapter_slots": {(): 4},
    "hookline_adapter_memory_bytes": {(): 512},
    "hookline_adapter_load_seconds": {(): ({1.5: 1}, 1.5)},
    "hookline_adapter_loads": {("loaded",): 7, ("failed",): 2},
    "hookline_adapter_evictions": {("gpu",): 3, ("cpu",): 1},
    "hookline_event_loop_lag_seconds": {(): 0.25},
    "hookline_event_loop_stalls": {(): 2},
    "hookline_memory_headroom_bytes": {(): 4096},
    "hookline_memory_used_bytes": {(): 1024},
    "hookline_out_of_memory_kills": {(): 2},
    "hookline_sleep_operation_seconds": {
        ("sleep",): ({3: 1}, 2.5),
        ("wake_up",): ({}, 0),
    },
    "hookline_sleep_operations_in_flight": {("sleep",): 0, ("wake_up",): 1},
    "hookline_transport_messages_dropped": {(): 3},
    "hookline_observer_front_ends": {(): 2},
    "hookline_observer_wait_seconds": {(): 0.1},
    "hookline_observer_dropped_notices": {(): 3},
    "hookline_observer_restarts": {(): 1},
    "hookline_requests_placed": {("0", "load"): 4, ("1", "prefix"): 2},
    "hookline_engines": {("serving",): 2, ("starting",): 1, ("leaving",): 3},
    "hookline_engines_wanted": {(): 4},
    "hookline_engines_limit": {("minimum",): 1, ("maximum",): 8},
    "hookline_scaling_decisions": {
        ("request",): 1,
        ("demand",): 2,
        **{(why,): 0 for why in ("steady", "trend", "quiet", "minimum", "maximum")},
    },
    "hookline_engines_added": {(): 5},
    "hookline_engines_removed": {(): 6},
    "hookline_engine_starts_failed": {(): 7},
    "hookline_engine_start_seconds": {(): 2.5},
    "hookline_requests_moved": {(): 3},
    "hookline_requests_taken_over": {(): 2},
    "hookline_engine_machine_info": {("1", "node-a"): 0, ("1", "node-b"): 1},
    "hookline_engine_link_round_trip_seconds": {("1",): 0.25, ("2",): 0},
    "hookline_engine_link_losses": {("1",): 1, ("2",): 0},
    "hookline_engine_link_joins": {("1",): 2, ("2",): 0},
    "hookline_transport_connections_refused": {(): 6},
    "hookline_log_lines_dropped": {("unread",): 3, ("repeated",): 7},
    "hookline_http_connections": {(): 7},
    "hookline_http_connections_maximum": {(): 100},
    "hookline_http_connections_closed": {
        ("keep_alive",): 0,
        ("header_timeout",): 0,
        ("body_timeout",): 0,
        ("write_timeout",): 0,
        ("malformed",): 0,
        ("tls_handshake",): 0,
        ("evicted",): 5,
        ("refused",): 1,
        ("drained",): 0,
    },
    "hookline_http_accept_errors": {(): 2},
    "hookline_tenant_requests_waiting": {("acme",): 3, ("none",): 1},
    "hookline_tenant_lag_tokens": {("acme",): 0, ("none",): 2.5},
    "hookline_text_jobs_waiting": {("chat",): 2, ("long",): 0, ("text",): 0},
    "hookline_text_jobs": {("chat",): 5, ("long",): 0, ("text",): 0},
    "hookline_text_seconds": {("chat",): 0.25, ("long",): 0, ("text",): 0},
    "hookline_text_process_restarts": {
        ("chat", "crashed"): 3,
        ("chat", "exceeded"): 1,
        ("long", "crashed"): 0,
        ("long", "exceeded"): 0,
        ("text", "crashed"): 0,
        ("text", "exceeded"): 0,
    },
    "hookline_reply_parser_failures": {
        ("tool", "hermes"): 4,
        ("reasoning", "qwen3"): 0,
    },
    "hookline_reply_repairs": {("tool", "hermes", "escape"): 2},
    "hookline_request_unknown_fields": {("user",): 4, ("other",): 1},
    "hookline_request_ignored_elements": {("messages", "tool.web_search"): 2},
    "hookline_stream_keep_alives": {(): 5},
    "hookline_stored_responses": {(): 3},
    "hookline_api_keys_stale_seconds": {(): 90.0},
    "hookline_stored_response_bytes": {(): 4096},
    "hookline_stored_response_evictions": {("count",): 0, ("bytes",): 0, ("age",): 2},
    "hookline_http_requests": {
        ("/v1/completions", "POST", "2xx"): 1,
        ("unmatched", "GET", "4xx"): 1,
    },
    "hookline_http_requests_in_flight": {("/v1/completions", "POST"): 3},
    "hookline_http_request_duration_seconds": {
        ("/v1/completions", "POST"): ({0.25: 1}, 0.2),
        ("unmatched", "GET"): ({0.005: 1}, 0.002),
    },
    "hookline_http_request_size_bytes": {
        ("/v1/completions",): ({1000: 1}, 150),
        ("unmatched",): ({100: 1}, 0),
    },
    "hookline_http_response_size_bytes": {
        ("/v1/completions",): ({10_000: 1}, 5000),
        ("unmatched",): ({100: 1}, 90),
    },
    "hookline_label_values_folded": {
        (label,): 0
        for label in (
            *(
                "architecture",
                "dtype",
                "cache_dtype",
                "block_size",
                "num_kv_blocks",
                "max_model_len",
            ),
            *("max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching"),
            *("executor", "isa", "version", "config_hash", "phase"),
            *("tensor_parallel_size", "pipeline_parallel_size", "rank"),
            *("code", "field", "kind", "tenant", "route", "method", "adapter"),
            *("logger", "label", "parser", "position", "reason", "tier"),
            *("blocks", "block_bytes", "capacity_tokens", "host", "role", "engine"),
        )
    },
    "hookline_processes": {("text", "0"): 2},
    "hookline_process_resident_memory_bytes": {("text", "0"): 8192},
    "hookline_process_cpu_seconds": {("text", "0"): 1.5},
    "hookline_process_open_fds": {("text", "0"): 20},
    "hookline_process_threads": {("text", "0"): 6},
    "hookline_process_start_time_seconds": {("text", "0"): 1000.0},
    "hookline_page_behind_seconds": {(): 0.125},
    "hookline_logger_lane_depth": {("prometheus",): 3},
    "hookline_logger_breaker_open": {("prometheus",): 1},
    "hookline_logger_left_out": {("own:Logger",): 1},
    "hookline_logger_delivered_batches": {("prometheus",): 100},
    "hookline_logger_dropped_batches": {("prometheus",): 7},
    "hookline_logger_errors": {("prometheus",): 2},
    "hookline_logger_busy_seconds": {("prometheus",): 1.5},
    "hookline_logger_pages_hung": {("prometheus",): 1},
    "hookline_logger_page_failures": {
        ("prometheus", "raised"): 2,
        ("prometheus", "timeout"): 3,
        ("prometheus", "busy"): 4,
    },
}


MADE_ELSEWHERE = {
    "hookline_bound_ratio",
    "hookline_saturation_ratio",
    "hookline_saturation_part_ratio",
    "hookline_capacity_requests_per_second",
    "hookline_capacity_concurrent_requests",
    "hookline_predicted_time_to_first_token_seconds",
    "hookline_predicted_inter_token_seconds",
    "hookline_capacity_error_ratio",
}
"""Their numbers have tests of their own."""

SCOPES = {metric.name: metric.scope for metric in CATALOGUE}

NOT_ZERO_AT_FIRST = {
    "hookline_engine_info",
    "hookline_sampling_defaults_info",
    "hookline_engine_sleep_state",
    "hookline_engine_up",
    "hookline_kv_blocks",
    "hookline_kv_tokens",
    "hookline_kv_capacity_tokens",
    "hookline_kv_block_size_tokens",
    "hookline_kv_pool_blocks",
    "hookline_context_length_tokens",
    "hookline_slo_attainment_ratio",
    "hookline_spec_decode_mean_accepted_length",
    "hookline_spec_decode_estimated_speedup_ratio",
    *MADE_ELSEWHERE,
}


def digest(value: float | HistogramValue) -> object:
    """A histogram as its buckets that are not empty, and its sum."""
    if not isinstance(value, HistogramValue):
        return value
    bounds = (*value.bounds, float("inf"))
    filled = {
        bound: count for bound, count in zip(bounds, value.counts, strict=True) if count
    }
    return filled, pytest.approx(value.sum)


def numbers(recorder: Recorder, name: str, *, engine: str = "0") -> Numbers:
    """The series of a family of Hookline's own dialect, of one engine."""
    (family,) = (family for family in recorder.snapshot() if family.name == name)
    if SCOPES.get(name) is Scope.FRONT_END:
        return {sample.labels[1:]: digest(sample.value) for sample in family.samples}
    return {
        sample.labels[2:]: digest(sample.value)
        for sample in family.samples
        if sample.labels[1] == engine
    }


@pytest.fixture
def recorder() -> Recorder:
    """A recorder that knows one engine."""
    recorder = Recorder(EVERYTHING, clock=VirtualClock())
    recorder.engine_started(make_started())
    return recorder


def test_expectations_cover_the_catalogue() -> None:
    """Every metric is fed by the test below: a new one must be added there."""
    assert set(EXPECTED) | MADE_ELSEWHERE == {
        metric.name for metric in CATALOGUE if metric.is_own
    }


@cache
def fed() -> Recorder:
    """Has seen a step, an abort outside steps and two answers."""
    clock = VirtualClock()
    recorder = Recorder(EVERYTHING, clock=clock)
    recorder.engine_started(make_started(THIS))
    recorder.step_finished(make_step(FIRST_STEP, EARLIER, record=STEP))
    clock.sleep(2.0)
    recorder.state_changed(
        make_state(OUTSIDE_STEPS, BUSY, at=20 * MILLISECOND, lanes=(LANE,))
    )
    recorder.http_answered(ANSWERED)
    recorder.front_end_changed(FRONT_END)
    recorder.page_asked(0.125)
    clock.sleep(0.5)
    return recorder


@for_each_row("name", EXPECTED)
def test_metric_is_fed_exactly(name: str) -> None:
    """A step, an abort outside steps and two answers give exactly these numbers."""
    assert numbers(fed(), name) == EXPECTED[name]


def test_series_exist_before_the_first_event() -> None:
    """After engine_started every series with known labels is there and is 0."""
    recorder = Recorder(EVERYTHING, clock=VirtualClock())

    recorder.engine_started(make_started())

    for metric in CATALOGUE:
        if metric.name in NOT_ZERO_AT_FIRST or not metric.is_own:
            continue
        found = numbers(recorder, metric.name)
        dynamic = any(not label.values for label in metric.labels)
        dynamic = dynamic and metric.name not in TOLD_AT_FIRST
        assert bool(found) != dynamic
        assert all(value in (0, ({}, 0)) for value in found.values())
    assert numbers(recorder, "hookline_kv_blocks") == {
        ("used",): 0,
        ("cached",): 0,
        ("free",): 40,
    }


def test_request_is_counted_once_wherever_it_ends(recorder: Recorder) -> None:
    """Requests that end in a step and outside one are each counted once."""
    lost = dataclasses.replace(ABORTED, cause=Failed("it broke"))

    recorder.step_finished(make_step(IterationStats(finished=(FINISHED,))))
    recorder.state_changed(make_state(IterationStats(finished=(ABORTED, lost))))
    recorder.state_changed(make_state())

    counted = numbers(recorder, "hookline_requests_finished")
    assert counted == {
        ("stop",): 1,
        ("length",): 0,
        ("abort",): 1,
        ("error",): 1,
        ("rejected",): 0,
        ("timeout",): 0,
        ("prefilled",): 0,
    }
    assert numbers(recorder, "hookline_request_e2e_seconds") == {
        (): ({0.8: 2, 10: 1}, 7.5)
    }


def test_prefill_half_is_no_success_and_has_no_ttft() -> None:
    """In every dialect: the instance that decodes counts the client's request."""
    metrics = MetricsConfig(dialects=("hookline", "sglang", "vllm"))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    half = dataclasses.replace(FINISHED, decodes_elsewhere=True)
    first = FirstToken(seconds=1.5, prefill_seconds=1.0, decodes_elsewhere=True)

    recorder.step_finished(
        make_step(IterationStats(first_tokens=(first,), finished=(half,)))
    )

    counted = numbers(recorder, "hookline_requests_finished")
    assert (counted[("stop",)], counted[("prefilled",)]) == (0, 1)
    assert not any(numbers(recorder, "vllm:request_success").values())
    assert numbers(recorder, "hookline_request_prefill_seconds") == {(): ({1.0: 1}, 1)}
    for name in ("hookline", "vllm", "sglang"):
        separator = "_" if name == "hookline" else ":"
        ttft = numbers(recorder, f"{name}{separator}time_to_first_token_seconds")
        assert all(value == ({}, 0) for value in ttft.values())


def test_rejected_request_is_counted_and_not_measured(recorder: Recorder) -> None:
    """A rejected request has a finish reason and no part in any distribution."""
    rejected = dataclasses.replace(ABORTED, cause=Rejected("overloaded", ""))

    recorder.state_changed(make_state(IterationStats(finished=(rejected,))))

    assert numbers(recorder, "hookline_requests_finished")[("rejected",)] == 1
    for name in ("e2e_seconds", "queue_seconds", "prompt_tokens", "preemptions"):
        assert numbers(recorder, f"hookline_request_{name}") == {(): ({}, 0)}


def test_phases_are_observed_before_the_end_in_every_dialect() -> None:
    """Queue and prefill count when they are over, and not again with the request."""
    metrics = MetricsConfig(dialects=("hookline", "sglang", "vllm"))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    begun = IterationStats(
        first_scheduled=(FirstScheduled(queue_seconds=0.5),),
        first_tokens=(FirstToken(seconds=1.5, prefill_seconds=1.0),),
    )

    wanted = {
        "hookline_request_queue_seconds": (1, 0.5),
        "sglang:queue_time_seconds": (1, 0.5),
        "vllm:request_queue_time_seconds": (1, 0.5),
        "hookline_request_prefill_seconds": (1, 1.0),
        "sglang:per_stage_req_latency_seconds": (1, 1.0),
        "vllm:request_prefill_time_seconds": (1, 1.0),
    }

    recorder.step_finished(make_step(begun))
    before = phase_sums(recorder, *wanted)
    recorder.step_finished(make_step(IterationStats(finished=(FINISHED,))))

    assert before == wanted
    assert phase_sums(recorder, *wanted) == wanted


def phase_sums(recorder: Recorder, *names: str) -> dict[str, tuple[int, float]]:
    """Count and sum of these histograms, each of one series."""
    found = {}
    for family in recorder.snapshot():
        if family.name in names:
            [sample] = family.samples
            assert isinstance(sample.value, HistogramValue)
            found[family.name] = (sample.value.count, sample.value.sum)
    return found


def test_rejections_exist_before_the_first() -> None:
    """Both limits of the queue have a series from the start, in vLLM's names, too."""
    metrics = MetricsConfig(dialects=("vllm",))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    name = "vllm:admission_rejections"
    rejected = dataclasses.replace(ABORTED, cause=Rejected("overloaded_tokens", ""))

    before = by_own_label(recorder, name)
    recorder.state_changed(make_state(IterationStats(finished=(rejected, LIMITED))))

    assert before == {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}
    assert by_own_label(recorder, name) == {
        "max_num_queued_reqs": 0,
        "max_num_queued_tokens": 1,
    }


def by_own_label(recorder: Recorder, name: str) -> dict[str, object]:
    """The samples by the one label whose values differ."""
    family = next(each for each in recorder.snapshot() if each.name == name)
    columns = zip(*(sample.labels for sample in family.samples), strict=True)
    [own] = [column for column in columns if len(set(column)) > 1]
    return {
        label: sample.value for label, sample in zip(own, family.samples, strict=True)
    }


SOURCES = {
    "hookline_cached_tokens": {
        "device": 64,
        "host": 32,
        "disk": 16,
        "p2p": 0,
        "unspecified": 8,
    },
    "vllm:prompt_tokens_cached_by_source": {
        "device": 64,
        "host": 32,
        "disk": 16,
        "p2p": 0,
        "external_unspecified": 8,
    },
    "sglang:cached_tokens": {"device": 64, "host": 32, "storage": 24},
    "sglang:prefill_effective_tokens": {
        "input": 7,
        "device_hit": 64,
        "host_hit": 32,
        "storage_hit": 24,
    },
}
"""Places of cached tokens by their name in each dialect."""


@pytest.mark.parametrize("name", SOURCES)
def test_cached_tokens_have_the_source_of_their_tier(name: str) -> None:
    """Hits are of the device, a tier, or an unknown place; each token is of one."""
    metrics = MetricsConfig(dialects=("hookline", "sglang", "vllm"))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    hits = {"cpu": 32, "disk": 16, "attic": 3}
    stats = SchedulerStats(
        sections={
            KV_TRANSFER: TransferStats(
                tier_hits=hits, external_cache=PrefixCacheCounts(2, 136, 56)
            )
        },
        totals=EngineTotals(prefix_cache=PrefixCacheCounts(2, 200, 64)),
    )

    before = by_own_label(recorder, name)
    iteration = IterationStats(prompt_tokens_computed=7)
    recorder.step_finished(make_step(iteration, stats))

    assert before == dict.fromkeys(SOURCES[name], 0)
    assert by_own_label(recorder, name) == SOURCES[name]


@pytest.mark.parametrize(
    ("named", "source"),
    [
        ("p2p", "p2p"),
        ("disk", "disk"),
        ("", "external_unspecified"),
        ("attic", "external_unspecified"),
    ],
)
def test_cached_tokens_have_the_source_that_a_connector_names(
    named: str, source: str
) -> None:
    """A connector without tiers has one source; what vLLM does not know is none."""
    metrics = MetricsConfig(dialects=("vllm",))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    stats = SchedulerStats(
        sections={
            KV_TRANSFER: TransferStats(
                hit_source=named, external_cache=PrefixCacheCounts(2, 136, 56)
            )
        },
        totals=EngineTotals(prefix_cache=PrefixCacheCounts(2, 200, 64)),
    )

    recorder.step_finished(make_step(scheduler=stats))

    told = by_own_label(recorder, "vllm:prompt_tokens_cached_by_source")
    assert {name: hits for name, hits in told.items() if hits} == {
        "device": 64,
        source: 56,
    }


HOST = {
    "hicache_host_used_tokens": 48,
    "hicache_host_total_tokens": 128,
    "hicache_backup_tokens": 80,
    "hicache_backup_bytes": 2560,
    "hicache_dropped_tokens": 32,
    "load_back_tokens": 24,
    "load_back_bytes": 1024,
}
"""SGLang's names of a tier in host memory, in blocks of 16 tokens and 512 bytes."""

STORAGE = {
    "storage_prefetch_hit_tokens": 64,
    "prefetched_tokens": 64,
    "backuped_tokens": 96,
    "hicache_backup_dropped_tokens": 48,
}
"""SGLang's names of a tier on disk."""


@pytest.mark.parametrize("name", [*HOST, *STORAGE])
def test_tiers_have_sglangs_names(name: str) -> None:
    """Each name is of one tier; without it, no series says 0."""
    metrics = MetricsConfig(dialects=("sglang",))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    host = TierStats(
        blocks=3,
        max_blocks=8,
        bytes=3 * 512,
        max_bytes=8 * 512,
        hit_tokens=24,
        missed_tokens=8,
        in_bytes=5 * 512,
        out_bytes=2 * 512,
        evicted_blocks=1,
        dropped_blocks=2,
    )
    disk = TierStats(
        blocks=90,
        max_blocks=99,
        max_bytes=99 * 512 + 100,
        hit_tokens=64,
        in_bytes=6 * 512,
        out_bytes=4 * 512,
        dropped_blocks=3,
    )

    def told(**tiers: TierStats) -> list[object]:
        stats = SchedulerStats(sections={KV_TRANSFER: TransferStats(tiers=tiers)})
        recorder.step_finished(make_step(scheduler=stats))
        [family] = [
            each for each in recorder.snapshot() if each.name == f"sglang:{name}"
        ]
        return [sample.value for sample in family.samples]

    assert told() == []
    assert told(cpu=host) == ([HOST[name]] if name in HOST else [])
    assert told(cpu=host, disk=disk) == [{**HOST, **STORAGE}[name]]


def test_structured_requests_are_those_with_a_structure() -> None:
    """Of three finished requests, one had to match a regular expression."""
    metrics = MetricsConfig(dialects=("sglang",))
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="a+"))
    structured = dataclasses.replace(FINISHED, params=params)

    ended = IterationStats(finished=(FINISHED, structured, REJECTED))
    recorder.step_finished(make_step(ended))

    told = {each.name: each for each in recorder.snapshot()}
    [sample] = told["sglang:num_so_requests"].samples
    assert sample.value == 1


def test_request_of_one_token_has_no_time_per_output_token(recorder: Recorder) -> None:
    """Nothing is observed where an average over n - 1 tokens does not exist."""
    short = dataclasses.replace(FINISHED, output_tokens=1, tpot_seconds=None)

    recorder.step_finished(make_step(IterationStats(finished=(short,))))

    name = "hookline_request_time_per_output_token_seconds"
    assert numbers(recorder, name) == {(): ({}, 0)}


def test_totals_need_no_batch_to_arrive(recorder: Recorder) -> None:
    """Totals of the engine are right after the newest batch, whatever was dropped."""
    recorder.step_finished(
        make_step(scheduler=SchedulerStats(totals=EngineTotals(received=3)))
    )
    recorder.step_finished(
        make_step(scheduler=SchedulerStats(totals=EngineTotals(received=90)))
    )
    recorder.state_changed(
        make_state(scheduler=SchedulerStats(totals=EngineTotals(received=80)))
    )

    assert numbers(recorder, "hookline_requests_received") == {(): 90}


@pytest.mark.parametrize("end", ["failed", "stopped"])
def test_gauges_rest_when_the_engine_is_over(recorder: Recorder, end: str) -> None:
    """A stopped engine shows no requests, even after a late state."""
    recorder.step_finished(make_step(FIRST_STEP, BUSY))

    if end == "failed":
        recorder.engine_failed(EngineFailed(engine_index=0, reason="", open_requests=5))
    else:
        recorder.engine_stopped(EngineStopped(engine_index=0, reason=""))
    recorder.state_changed(make_state(OUTSIDE_STEPS, BUSY))

    assert numbers(recorder, "hookline_requests_running") == {(): 0}
    assert set(numbers(recorder, "hookline_requests_waiting").values()) == {0}
    assert numbers(recorder, "hookline_kv_cache_usage_ratio") == {(): 0}
    assert numbers(recorder, "hookline_oldest_running_age_seconds") == {(): 0}
    assert numbers(recorder, "hookline_kv_blocks")[("free",)] == 40
    assert numbers(recorder, "hookline_requests_received") == {(): 14}
    assert numbers(recorder, "hookline_conservation_residue")[("tokens",)] == 2
    assert numbers(recorder, "hookline_requests_finished")[("abort",)] == 1


def test_engine_that_starts_again_counts_on(recorder: Recorder) -> None:
    """A restarted engine keeps its counters and loses its info series."""
    other = dataclasses.replace(
        FACTS, model=dataclasses.replace(FACTS.model, num_kv_blocks=50)
    )
    recorder.step_finished(make_step(FIRST_STEP, BUSY))
    recorder.state_changed(make_state(scheduler=BUSY, lanes=(LANE,)))

    recorder.engine_started(make_started(other))
    recorder.step_finished(
        make_step(FIRST_STEP, SchedulerStats(totals=EngineTotals(received=1)))
    )
    recorder.state_changed(
        make_state(
            scheduler=SchedulerStats(totals=EngineTotals(received=1)), lanes=(LANE,)
        )
    )

    (info,) = numbers(recorder, "hookline_engine_info")
    assert "50" in info
    assert numbers(recorder, "hookline_requests_received") == {(): 15}
    assert numbers(recorder, "hookline_generation_tokens") == {(): 12}
    assert numbers(recorder, "hookline_logger_delivered_batches") == {
        ("prometheus",): 100
    }


def test_engines_are_kept_apart(recorder: Recorder) -> None:
    """Each engine has its own series, under its own model's name."""
    second = dataclasses.replace(FACTS, engine_index=1, model_name="other")
    of_second = StepRecord(2, 1, 0, 0, 0, 0, [])
    recorder.engine_started(make_started(second))

    recorder.step_finished(make_step(scheduler=SchedulerStats(running=1)))
    recorder.step_finished(
        make_step(scheduler=SchedulerStats(running=2), record=of_second)
    )

    running = next(
        family
        for family in recorder.snapshot()
        if family.name == "hookline_requests_running"
    )
    assert {sample.labels: sample.value for sample in running.samples} == {
        ("tiny", "0"): 1,
        ("other", "1"): 2,
    }


def test_unknown_engine_is_ignored() -> None:
    """Payloads of an engine without `engine_started` are not counted."""
    recorder = Recorder(EVERYTHING)

    recorder.step_finished(make_step(FIRST_STEP, BUSY))
    recorder.state_changed(make_state(OUTSIDE_STEPS, BUSY))
    recorder.engine_stopped(EngineStopped(engine_index=0, reason=""))

    told = [
        family.name
        for family in recorder.snapshot()
        if any(digest(sample.value) not in (0, ({}, 0)) for sample in family.samples)
    ]
    assert told == []


def test_unknown_dialect_is_an_error() -> None:
    """A dialect that does not exist is refused, and those that do are named."""
    metrics = MetricsConfig(dialects=("hookline", "klingon"))

    with pytest.raises(ConfigError, match=r"unknown dialect 'klingon'.*vllm"):
        Recorder(EngineConfig(sections={"metrics": metrics}))


def test_snapshots_see_whole_steps(recorder: Recorder) -> None:
    """While another thread records, a snapshot never shows half of a step."""
    step = make_step(
        IterationStats(generation_tokens=1, first_tokens=(FirstToken(seconds=0.01),)),
        record=RECORD,
    )
    done = threading.Event()

    def record() -> None:
        for _ in range(500):
            recorder.step_finished(step)
        done.set()

    thread = threading.Thread(target=record)
    thread.start()
    pairs = []
    while not done.is_set():
        families = {family.name: family for family in recorder.snapshot()}
        tokens = families["hookline_generation_tokens"].samples[0].value
        first = families["hookline_time_to_first_token_seconds"].samples[0].value
        assert isinstance(first, HistogramValue)
        pairs.append((tokens, first.count))
    thread.join()

    assert all(tokens == count for tokens, count in pairs)
    assert numbers(recorder, "hookline_generation_tokens") == {(): 500}
