"""The catalogue is complete, and its names keep the rules of Prometheus."""

import re

import pytest

from hookline.metrics import CATALOGUE, DIALECTS, OWN_DIALECT, Kind, Metric
from hookline.metrics.metric import Stability

VLLM_FAMILIES = {
    "vllm:cache_config_info",
    "vllm:e2e_request_latency_seconds",
    "vllm:generation_tokens_total",
    "vllm:inter_token_latency_seconds",
    "vllm:iteration_tokens_total",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prompt_tokens_by_source_total",
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
    "vllm:time_to_first_token_seconds",
}

RESERVED_PARTS = {
    *("counter", "gauge", "histogram", "summary"),
    *("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"),
    *("minutes", "hours", "days", "milliseconds", "percent", "kilobytes"),
}

every_metric = pytest.mark.parametrize(
    "metric", CATALOGUE, ids=lambda metric: metric.name
)


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
    """A deprecated metric says what replaces it, and that is in the catalogue."""
    names = {other.name for other in CATALOGUE}

    if metric.stability is Stability.DEPRECATED:
        assert metric.replaced_by in names
    else:
        assert metric.replaced_by is None


@every_metric
def test_own_name_keeps_the_naming_rules(metric: Metric) -> None:
    """Own names are what promtool's linter accepts, with a unit where they have one."""
    parts = metric.name.split("_")

    assert re.fullmatch(r"hookline(_[a-z0-9]+)+", metric.name)
    assert not RESERVED_PARTS & set(parts)
    assert parts[-1] not in {"total", "count", "sum", "bucket"}
    if metric.unit in {"seconds", "tokens", "ratio"}:
        assert metric.unit in parts
    for label in metric.labels:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", label.name)
        assert label.name not in {"le", "quantile", "model_name", "engine"}


@every_metric
def test_aliases_translate_only_labels_there_are(metric: Metric) -> None:
    """An alias renames, drops and translates existing labels; histograms, none."""
    values = {label.name: set(label.values) for label in metric.labels}

    for dialect in DIALECTS:
        for alias in metric.aliases(dialect):
            named = {*alias.rename, *alias.drop, *alias.values}
            assert named <= set(metric.label_names)
            assert alias.is_plain or metric.kind is not Kind.HISTOGRAM
            for name, translation in alias.values.items():
                assert not values[name] or set(translation) <= values[name]


def test_names_are_unique() -> None:
    """No two families of any dialects share a name or clash over a suffix."""
    names = [
        name
        for dialect in DIALECTS
        for metric in CATALOGUE
        for name in exposed_names(metric, dialect)
    ]
    bases = [
        alias.name
        for dialect in DIALECTS
        for metric in CATALOGUE
        for alias in metric.aliases(dialect)
    ]
    suffixed = {name + suffix for name in names for suffix in ("_sum", "_count")}

    assert len(names) == len(set(names))
    assert len(bases) == len(set(bases))
    assert not suffixed & set(names)


def test_vllm_dialect_has_the_families_this_engine_can_feed() -> None:
    """The vllm dialect holds exactly the families that dashboards look for."""
    names = {name for metric in CATALOGUE for name in exposed_names(metric, "vllm")}

    assert names == VLLM_FAMILIES


def test_own_dialect_comes_first() -> None:
    """The dialects are Hookline's own and those that the catalogue names."""
    assert DIALECTS == (OWN_DIALECT, "vllm")
