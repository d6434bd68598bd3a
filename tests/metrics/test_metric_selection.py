"""Which metrics a configuration asks for, and what it may not ask for."""

import dataclasses

import pytest

from hookline.config import (
    CacheConfig,
    DetailedTrace,
    EngineConfig,
)
from hookline.exceptions import ConfigError
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_metrics import CATALOGUE, Family, HistogramValue, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_testing.payloads import FACTS, make_started, make_step


def configured(**settings: object) -> EngineConfig:
    metrics = MetricsConfig(**settings)  # type: ignore[arg-type]
    return EngineConfig(sections={"metrics": metrics})


def told(config: EngineConfig) -> dict[str, Family]:
    """The families by name, after a first token that took 20 ms."""
    recorder = Recorder(config)
    recorder.engine_started(make_started())
    first = FirstToken(seconds=0.02)
    recorder.step_finished(make_step(IterationStats(first_tokens=(first,))))
    return {family.name: family for family in recorder.snapshot()}


def histogram(family: Family) -> HistogramValue:
    [sample] = family.samples
    assert isinstance(sample.value, HistogramValue)
    return sample.value


def test_dialects_are_those_asked_for() -> None:
    """One dialect's names alone, in the order of the catalogue."""
    names = set(told(configured(dialects=("sglang",))))

    assert names
    assert all(name.startswith("sglang:") for name in names)


def test_default_is_our_names_and_those_of_vllm() -> None:
    """Without a choice there are hookline's and vllm's names, and nothing hidden."""
    names = set(told(EngineConfig()))

    assert "hookline_requests_running" in names
    assert "vllm:num_requests_running" in names
    assert not any(name.startswith("sglang:") for name in names)
    assert "vllm:gpu_cache_usage_perc" not in names


@pytest.mark.parametrize(
    ("version", "is_shown"), [("0.0", True), ("0.1", False), ("1.0", False)]
)
def test_hidden_names_can_be_shown(version: str, is_shown: bool) -> None:
    """A version that still showed a name brings it back, with the notice."""
    families = told(configured(show_hidden_for_version=version))

    assert ("vllm:gpu_cache_usage_perc" in families) is is_shown
    if is_shown:
        text = families["vllm:gpu_cache_usage_perc"].help
        assert text.startswith("DEPRECATED, use vllm:kv_cache_usage_perc instead")


def test_features_bring_their_metrics() -> None:
    """Residency, detailed traces and tenants have metrics only when they are on."""
    default = configured(dialects=("hookline",))
    plain = dataclasses.replace(
        default,
        observers=dataclasses.replace(
            default.observers, detailed_traces=(DetailedTrace.NONE,)
        ),
    )
    config = dataclasses.replace(
        plain,
        cache=CacheConfig(residency_sample=0.01),
        observers=dataclasses.replace(
            plain.observers,
            detailed_traces=(DetailedTrace.MODEL,),
        ),
        sections={"metrics": MetricsConfig(dialects=("hookline",), max_tenants=3)},
    )

    more = set(told(config)) - set(told(plain))

    assert more == {
        *("hookline_kv_block_lifetime_seconds", "hookline_kv_block_reuse_gap_seconds"),
        "hookline_kv_block_idle_before_evict_seconds",
        "hookline_request_model_forward_seconds",
        *(metric.name for metric in CATALOGUE if "_tenant_" in metric.name),
    }


def test_times_of_model_and_executor_need_no_option() -> None:
    """Each request's times are measured by default, under vLLM's names as well."""
    names = set(told(EngineConfig()))

    assert {
        "hookline_request_model_forward_seconds",
        "hookline_request_model_execute_seconds",
        "vllm:model_forward_time_milliseconds",
        "vllm:model_execute_time_milliseconds",
    } <= names


def test_patterns_choose_and_leave_out() -> None:
    """What a pattern excludes is gone even where another includes it."""
    config = configured(
        include=("hookline_request_*", "vllm:num_*"), exclude=("*_seconds",)
    )

    names = set(told(config))

    assert "hookline_request_preemptions" in names
    assert "vllm:num_requests_running" in names
    assert "hookline_request_e2e_seconds" not in names
    assert "hookline_requests_running" not in names


def test_counter_can_be_excluded_by_the_name_that_is_shown() -> None:
    """The suffix of a counter may be typed or not."""
    with_suffix = told(configured(exclude=("vllm:prompt_tokens_total",)))
    without = told(configured(exclude=("vllm:prompt_tokens",)))

    assert "vllm:prompt_tokens" not in with_suffix
    assert set(with_suffix) == set(without)


def test_constant_labels_stand_on_every_series() -> None:
    """Each family has the label at its end, the front end's among them."""
    families = told(configured(labels={"zone": "b", "cluster": "a"}))

    for family in families.values():
        assert family.label_names[-2:] == ("cluster", "zone")
        assert all(sample.labels[-2:] == ("a", "b") for sample in family.samples)


def test_buckets_of_a_family_are_replaced_for_all_its_metrics() -> None:
    """Our name and vllm's show the same new bounds."""
    families = told(
        configured(histogram_buckets={"time_to_first_token": (0.015, 0.025)})
    )

    for name in (
        "hookline_time_to_first_token_seconds",
        "vllm:time_to_first_token_seconds",
    ):
        value = histogram(families[name])
        assert value.bounds == (0.015, 0.025)
        assert value.counts == (0, 1, 0)


def test_buckets_of_one_name_leave_the_others() -> None:
    """A name's own bounds win, and other names of the same sums keep theirs."""
    name = "vllm:time_to_first_token_seconds"
    families = told(configured(histogram_buckets={name: (0.01, 1.0)}))

    theirs = histogram(families[name])
    ours = histogram(families["hookline_time_to_first_token_seconds"])

    assert (theirs.bounds, theirs.counts) == ((0.01, 1.0), (0, 1, 0))
    assert len(ours.bounds) == 30
    assert ours.counts[ours.bounds.index(0.02)] == ours.count == 1


def test_dialects_share_sums_and_keep_their_own_buckets() -> None:
    """A value counts once, in the bucket that each dialect has for it."""
    families = told(configured(dialects=("hookline", "sglang")))

    ours = histogram(families["hookline_time_to_first_token_seconds"])
    samples = families["sglang:time_to_first_token_seconds"].samples
    [theirs] = [sample.value for sample in samples if "false" in sample.labels]

    assert isinstance(theirs, HistogramValue)
    assert 400 in theirs.bounds
    assert 400 not in ours.bounds
    for value in (ours, theirs):
        assert value.counts[value.bounds.index(0.02)] == value.count == 1
    assert theirs.sum == ours.sum == 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dialects": ()}, "metrics-dialect: name at least one"),
        ({"dialects": ("klingon",)}, "unknown dialect 'klingon'"),
        (
            {"include": ("nothing_*",)},
            "include-metrics: 'nothing_\\*' matches no metric",
        ),
        ({"exclude": ("typo",)}, "exclude-metrics: 'typo' matches no metric"),
        ({"histogram_buckets": {"x": (1.0,)}}, "'x' is neither a histogram nor"),
        ({"histogram_buckets": {"iteration_tokens": ()}}, "must be positive"),
        ({"histogram_buckets": {"iteration_tokens": (0.0, 1.0)}}, "must be positive"),
        (
            {"histogram_buckets": {"iteration_tokens": (2.0, 1.0)}},
            "must be strictly increasing",
        ),
        (
            {"histogram_buckets": {"iteration_tokens": (1.0, 1.0)}},
            "must be strictly increasing",
        ),
        ({"histogram_buckets": {"iteration_tokens": (float("inf"),)}}, "finite"),
        ({"labels": {"9x": "a"}}, "'9x' is not a valid label name"),
        ({"labels": {"__x": "a"}}, "'__x' is not a valid label name"),
        ({"labels": {"model_name": "a"}}, "'model_name' is already a label"),
        ({"labels": {"le": "a"}}, "'le' is already a label"),
        ({"show_hidden_for_version": "new"}, "'new' is not a version"),
        ({"max_tenants": 100_000}, "max-tenants: must be 0 to"),
    ],
)
def test_invalid_settings_are_one_clear_error(
    settings: dict[str, object], message: str
) -> None:
    """A mistake in the settings of metrics is an error when the recorder is created."""
    with pytest.raises(ConfigError, match=message):
        Recorder(configured(**settings))


def test_excluded_metric_costs_nothing() -> None:
    """An excluded metric is not accumulated."""
    recorder = Recorder(configured(include=("hookline_generation_tokens",)))
    recorder.engine_started(make_started(FACTS))

    recorder.step_finished(make_step(IterationStats(generation_tokens=3)))

    [family] = recorder.snapshot()
    assert [sample.value for sample in family.samples] == [3]
