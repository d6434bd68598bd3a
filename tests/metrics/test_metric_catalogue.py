"""The catalogue is complete, and its names keep the rules of Prometheus."""

import re
from collections import Counter

import pytest

from hookline.clock import VirtualClock
from hookline_metrics import (
    CATALOGUE,
    DIALECTS,
    NOT_APPLICABLE,
    OWN_DIALECT,
    Alias,
    Kind,
    Metric,
    Recorder,
)
from hookline_metrics.dialects.help_texts import HELP
from hookline_metrics.metric import Stability
from hookline_testing.payloads import make_started
from hookline_testing.table_walk import for_each_row

VLLM_FAMILIES = {
    "vllm:admission_rejections_total",
    "vllm:cache_config_info",
    "vllm:corrupted_requests_total",
    "vllm:e2e_request_latency_seconds",
    "vllm:estimated_flops_per_gpu_total",
    "vllm:estimated_read_bytes_per_gpu_total",
    "vllm:estimated_write_bytes_per_gpu_total",
    "vllm:external_prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:generation_tokens_total",
    "vllm:inter_token_latency_seconds",
    "vllm:iteration_tokens_total",
    "vllm:kv_block_idle_before_evict_seconds",
    "vllm:kv_block_lifetime_seconds",
    "vllm:kv_block_reuse_gap_seconds",
    "vllm:kv_cache_usage_perc",
    *("vllm:kv_offload_load_bytes_total", "vllm:kv_offload_load_time_total"),
    *("vllm:kv_offload_store_bytes_total", "vllm:kv_offload_store_time_total"),
    "vllm:kv_offload_allocation_failure_total",
    "vllm:kv_offload_config_info",
    "vllm:kv_offload_cpu_allocation_size",
    "vllm:kv_offload_cpu_cache_read_usage_perc",
    "vllm:kv_offload_cpu_cache_usage_perc",
    "vllm:kv_offload_cpu_cache_write_usage_perc",
    "vllm:kv_offload_load_size",
    "vllm:kv_offload_lookup_sync_delay_seconds",
    "vllm:kv_offload_size",
    "vllm:kv_offload_store_size",
    "vllm:kv_offload_tiering_active_cascade_jobs",
    "vllm:kv_offload_tiering_active_promotion_jobs",
    "vllm:kv_offload_tiering_backpressure_blocks_dropped_total",
    "vllm:kv_offload_tiering_backpressure_stores_dropped_total",
    "vllm:kv_offload_tiering_cascade_job_failures_total",
    "vllm:kv_offload_tiering_chunk_hits_total",
    "vllm:kv_offload_tiering_chunk_queries_total",
    "vllm:kv_offload_tiering_lookup_sync_delay_seconds",
    "vllm:kv_offload_tiering_promotion_job_failures_total",
    "vllm:kv_offload_tiering_promotion_latency_seconds",
    "vllm:kv_offload_tiering_read_bytes_total",
    "vllm:kv_offload_tiering_read_time_total",
    "vllm:kv_offload_tiering_write_bytes_total",
    "vllm:kv_offload_tiering_write_time_total",
    "vllm:kv_offload_total_bytes_total",
    "vllm:kv_offload_total_time_total",
    "vllm:model_execute_time_milliseconds",
    "vllm:model_forward_time_milliseconds",
    "vllm:num_preemptions_total",
    "vllm:num_requests_kv_fetch_by_stage",
    "vllm:engine_sleep_state",
    *("vllm:lora_adapter_load_seconds", "vllm:lora_adapter_loaded"),
    *("vllm:lora_requests_info", "vllm:max_gpu_lora_adapters"),
    *("vllm:num_cpu_loaded_lora_adapters", "vllm:num_gpu_loaded_lora_adapters"),
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_by_source_total",
    "vllm:prompt_tokens_cached_by_source_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:prompt_tokens_total",
    "vllm:request_decode_time_seconds",
    "vllm:request_generation_tokens",
    "vllm:request_inference_time_seconds",
    "vllm:request_max_num_generation_tokens",
    "vllm:request_num_preemptions",
    "vllm:request_params_max_tokens",
    "vllm:request_params_n",
    "vllm:request_prefill_kv_computed_tokens",
    "vllm:request_prefill_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_queue_time_seconds",
    "vllm:request_success_total",
    "vllm:request_time_per_output_token_seconds",
    "vllm:sleep_mode_operation_duration_seconds",
    "vllm:sleep_mode_operations_in_flight",
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:spec_decode_num_accepted_tokens_total",
    "vllm:spec_decode_num_draft_tokens_total",
    "vllm:spec_decode_num_drafts_total",
    "vllm:time_to_first_token_seconds",
    *("http_request_duration_highr_seconds", "http_request_duration_seconds"),
    *("http_request_size_bytes", "http_requests_total", "http_response_size_bytes"),
}
"""Of vLLM 0.33: those that an engine for texts can feed."""

VLLM_HIDDEN = {
    "vllm:avg_generation_throughput_toks_per_s",
    "vllm:avg_prompt_throughput_toks_per_s",
    "vllm:cpu_cache_usage_perc",
    "vllm:cpu_prefix_cache_hit_rate",
    "vllm:gpu_cache_usage_perc",
    "vllm:gpu_prefix_cache_hit_rate",
    "vllm:gpu_prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:num_requests_swapped",
    "vllm:spec_decode_draft_acceptance_rate",
    "vllm:spec_decode_efficiency",
    "vllm:spec_decode_num_emitted_tokens_total",
    "vllm:time_in_queue_requests",
    "vllm:time_per_output_token_seconds",
    "vllm:tokens_total",
}

SGLANG_FAMILIES = {
    *("sglang:cache_hit_rate", "sglang:cached_tokens_total", "sglang:context_len"),
    *("sglang:e2e_request_latency_seconds", "sglang:estimated_flops_per_gpu_total"),
    "sglang:estimated_read_bytes_per_gpu_total",
    "sglang:estimated_write_bytes_per_gpu_total",
    *("sglang:full_token_usage", "sglang:gen_throughput"),
    *("sglang:generation_tokens_histogram", "sglang:generation_tokens_total"),
    "sglang:grammar_compilation_time_seconds",
    *("sglang:http_requests_active", "sglang:http_requests_total"),
    *("sglang:http_responses_total", "sglang:cache_config_info"),
    *("sglang:spec_verify_calls_total", "sglang:time_per_output_token_seconds"),
    *("sglang:inter_token_latency_seconds", "sglang:kv_available_tokens"),
    *("sglang:kv_evictable_tokens", "sglang:kv_used_tokens"),
    *("sglang:lora_pool_slots_total", "sglang:lora_pool_slots_used"),
    "sglang:lora_pool_utilization",
    *("sglang:max_total_num_tokens", "sglang:num_aborted_requests_total"),
    *("sglang:num_grammar_total", "sglang:num_grammar_cache_hit_total"),
    "sglang:num_grammar_timeout_total",
    *("sglang:num_grammar_queue_reqs", "sglang:num_pages", "sglang:num_queue_reqs"),
    *("sglang:num_requests_total", "sglang:num_retracted_requests_total"),
    *("sglang:num_running_reqs", "sglang:num_used_tokens", "sglang:page_size"),
    "sglang:prefill_effective_tokens_total",
    *("sglang:kv_transfer_latency_ms", "sglang:num_decode_transfer_queue_reqs"),
    "sglang:num_prefill_inflight_queue_reqs",
    *("sglang:num_so_requests_total", "sglang:hicache_backup_duration_seconds"),
    *("sglang:backuped_tokens_total", "sglang:hicache_backup_dropped_tokens_total"),
    *("sglang:prefetched_tokens_total", "sglang:storage_prefetch_hit_tokens_total"),
    *("sglang:num_transfer_failed_reqs_total", "sglang:kv_cache_memory_usage_gb"),
    *("sglang:evicted_tokens_total", "sglang:eviction_duration_seconds"),
    *("sglang:num_retracted_input_tokens_total", "sglang:num_retracted_reqs"),
    "sglang:num_retracted_output_tokens_total",
    *("sglang:hicache_host_total_tokens", "sglang:hicache_host_used_tokens"),
    *("sglang:hicache_backup_bytes_total", "sglang:hicache_backup_tokens_total"),
    *("sglang:hicache_dropped_tokens_total", "sglang:load_back_bytes_total"),
    *("sglang:load_back_duration_seconds", "sglang:load_back_tokens_total"),
    *("sglang:per_stage_req_latency_seconds", "sglang:prompt_tokens_histogram"),
    *("sglang:prompt_tokens_total", "sglang:queue_time_seconds"),
    *("sglang:realtime_tokens_total", "sglang:request_time_per_output_token_seconds"),
    *("sglang:spec_accept_length", "sglang:spec_accept_rate"),
    *("sglang:startup_time_seconds", "sglang:time_to_first_token_seconds"),
    *("sglang:token_usage", "sglang:uncached_prompt_tokens_histogram"),
}

RESERVED_PARTS = {
    *("counter", "gauge", "histogram", "summary"),
    *("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"),
    *("minutes", "hours", "days", "milliseconds", "percent", "kilobytes"),
}

UNIT_ELSEWHERE = {
    "hookline_estimated_flops": "FLOPs are operations",
    "hookline_kv_transfer_in_flight": "it counts what its name has in the singular",
    "hookline_kv_transfer_closing": "likewise",
    "hookline_kv_transfer_ended": "likewise",
    "hookline_logger_lane_depth": "the depth of a queue is in what it holds",
}
"""Own names without their unit, and why."""

MOST_FAMILIES = {"hookline": 260, "vllm": 92, "sglang": 78}
"""By dialect; another one needs a reason, and a higher limit.

Those of adapters are shown only by servers that have some.
"""
MOST_SERIES = 460
"""Of one engine at its start, under the names shown by default; a histogram is one."""

own_metric = for_each_row(
    "metric",
    [metric for metric in CATALOGUE if metric.is_own],
    ids=lambda metric: metric.name,
)
every_metric = for_each_row("metric", CATALOGUE, ids=lambda metric: metric.name)


def exposed_names(metric: Metric, dialect: str) -> list[str]:
    return [metric.exposed(alias.name) for alias in metric.aliases(dialect)]


@every_metric
def test_metric_is_described(metric: Metric) -> None:
    """Every metric has a help text that is a sentence, a unit and a version."""
    assert metric.help.endswith(".")
    assert metric.help.isascii()
    assert metric.unit
    assert re.fullmatch(r"\d+\.\d+", metric.since)


@every_metric
def test_metric_has_buckets_exactly_if_it_is_a_histogram(metric: Metric) -> None:
    """A histogram names its buckets, and nothing else does."""
    assert (metric.buckets is not None) == (metric.kind is Kind.HISTOGRAM)


@every_metric
def test_deprecated_metric_names_its_successor(metric: Metric) -> None:
    """A deprecated metric names its replacement, which is in the catalogue."""
    names = {other.name for other in CATALOGUE}

    if metric.stability is Stability.DEPRECATED:
        assert metric.replaced_by in names
    else:
        assert metric.replaced_by is None


@own_metric
def test_own_name_keeps_the_naming_rules(metric: Metric) -> None:
    """Own names are what promtool's linter accepts, with a unit where they have one."""
    parts = metric.name.split("_")

    assert re.fullmatch(r"hookline(_[a-z0-9]+)+", metric.name)
    assert not RESERVED_PARTS & set(parts)
    assert parts[-1] not in {"total", "count", "sum", "bucket"}
    if metric.unit in {"seconds", "tokens", "ratio"}:
        assert metric.unit in parts
    has_unit = metric.unit == "1" or metric.unit in metric.name
    assert has_unit != (metric.name in UNIT_ELSEWHERE)
    for label in metric.labels:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label.name)
        assert label.name not in {"le", "quantile", "model_name", *metric.scope.labels}


@every_metric
def test_every_family_names_the_model(metric: Metric) -> None:
    """In Hookline's dialect and in vLLM's, those of the front end included."""
    for dialect in ("hookline", "vllm"):
        for alias in metric.aliases(dialect):
            assert "model_name" in shown_labels(metric, alias)


@every_metric
def test_aliases_translate_only_labels_there_are(metric: Metric) -> None:
    """An alias renames, drops and translates labels that the metric has."""
    values = {label.name: set(label.values) for label in metric.labels}

    for dialect in DIALECTS:
        for alias in metric.aliases(dialect):
            named = {*alias.rename, *alias.drop, *alias.values, *alias.without}
            assert named <= set(metric.label_names)
            assert not set(alias.add) & set(metric.label_names) - alias.drop
            for name, translation in alias.values.items():
                assert not values[name] or set(translation) <= values[name]


def test_names_are_unique() -> None:
    """Two families share a name only as parts of one: same dialect, kind and labels."""
    told: dict[str, set[object]] = {}
    for dialect in DIALECTS:
        for metric in CATALOGUE:
            for alias in metric.aliases(dialect):
                kind = metric.kind_of(alias)
                labels = frozenset(shown_labels(metric, alias))
                told.setdefault(alias.name, set()).add((dialect, kind, labels))

    names = {
        name
        for dialect in DIALECTS
        for metric in CATALOGUE
        for name in exposed_names(metric, dialect)
    }
    suffixed = {name + suffix for name in names for suffix in ("_sum", "_count")}

    assert all(len(parts) == 1 for parts in told.values())
    assert not suffixed & names


def shown_labels(metric: Metric, alias: Alias) -> set[str]:
    kept = {name for name in metric.label_names if name not in alias.drop}
    return {alias.rename.get(name, name) for name in kept} | set(alias.add)


def test_vllm_dialect_has_the_families_this_engine_can_feed() -> None:
    """The vllm dialect holds exactly the families that dashboards look for."""
    told = [
        (metric.exposed(alias.name), alias)
        for metric in CATALOGUE
        for alias in metric.aliases("vllm")
    ]

    assert {name for name, alias in told if not alias.hidden_since} == VLLM_FAMILIES
    assert {name for name, alias in told if alias.hidden_since} == VLLM_HIDDEN


def test_sglang_dialect_has_the_families_this_engine_can_feed() -> None:
    """The sglang dialect holds exactly the families that have a meaning here."""
    names = {name for metric in CATALOGUE for name in exposed_names(metric, "sglang")}

    assert names == SGLANG_FAMILIES


@pytest.mark.parametrize("dialect", sorted(NOT_APPLICABLE))
def test_inapplicable_families_are_not_exposed(dialect: str) -> None:
    """A family that is declared not applicable is in no dialect, and has a reason."""
    names = {name for metric in CATALOGUE for name in exposed_names(metric, dialect)}

    assert not names & set(NOT_APPLICABLE[dialect])
    assert all(NOT_APPLICABLE[dialect].values())


def test_catalogue_keeps_its_budget() -> None:
    """A new family is paid for by whoever scrapes, so their number has a limit."""
    families = Counter(
        dialect
        for dialect in DIALECTS
        for name in {
            alias.name
            for metric in CATALOGUE
            for alias in metric.aliases(dialect)
            if not alias.hidden_since
        }
    )
    recorder = Recorder(clock=VirtualClock())

    recorder.engine_started(make_started())
    series = sum(len(family.samples) for family in recorder.snapshot())

    assert {name: families[name] for name in MOST_FAMILIES} == {
        name: min(families[name], most) for name, most in MOST_FAMILIES.items()
    }
    assert series <= MOST_SERIES


def test_hidden_names_say_what_replaces_them() -> None:
    """A deprecated name's help begins with the notice, and names its successor."""
    for metric in CATALOGUE:
        for dialect in DIALECTS:
            for alias in metric.aliases(dialect):
                if alias.hidden_since:
                    text = metric.help_of(alias)
                    assert text.startswith("DEPRECATED, use ")
                    assert alias.replaced_by


def test_names_of_other_samples_have_their_own_help() -> None:
    """A name that picks, relabels or adds up samples does not borrow our text."""
    told = [
        alias
        for metric in CATALOGUE
        for dialect in DIALECTS
        for alias in metric.aliases(dialect)
    ]
    parts = Counter(alias.name for alias in told)

    borrowed = {
        alias.name
        for alias in told
        if not alias.help
        and (
            alias.values
            or alias.without
            or alias.drop - {"engine"}
            or parts[alias.name] > 1
        )
    }

    assert borrowed == set()
    assert set(HELP) <= set(parts)
    assert all(text.endswith(".") and text.isascii() for text in HELP.values())


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("vllm:num_requests_waiting", "by what"),
        ("vllm:prompt_tokens_cached", "computed here"),
        ("vllm:request_success", "rejected)"),
    ],
)
def test_help_speaks_of_its_own_samples_alone(name: str, ours: str) -> None:
    """These names leave out labels or samples that our metric's help explains."""
    [(metric, alias)] = [
        (metric, alias)
        for metric in CATALOGUE
        for alias in metric.aliases("vllm")
        if alias.name == name
    ]

    assert ours in metric.help
    assert ours not in metric.help_of(alias)


def test_own_dialect_is_first() -> None:
    """The dialects are Hookline's own and those that the catalogue names."""
    assert DIALECTS == (OWN_DIALECT, "sglang", "vllm")
