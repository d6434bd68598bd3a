"""The same sums in other dialects."""

import copy
import dataclasses

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_metrics import Alias, Family, Kind, Label, Metric, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.label_guard import LabelGuards
from hookline_metrics.metric import Scope
from hookline_metrics.readings import Reading, one
from hookline_metrics.selection import Chosen, Selection
from hookline_metrics.snapshot import FamilyBuilder
from hookline_metrics.sums import Sums
from hookline_testing.payloads import FACTS, make_started, make_step

METRIC = Metric(
    name="hookline_things",
    kind=Kind.GAUGE,
    unit="things",
    help="Things.",
    labels=(Label("colour", ("red", "green", "blue")),),
    value=Reading(SchedulerStats, lambda stats: one(stats.running)),
)


def told(alias: Alias) -> Family:
    """Returns METRIC's family with red 1, green 2 and blue 3 under an alias."""
    selection = Selection(EngineConfig())
    selection.chosen = (Chosen(METRIC, (alias,)),)
    guards = LabelGuards(MetricsConfig())
    sums = Sums(selection, guards, scope=Scope.ENGINE, since=1.0, labels=("m", "0"))
    [only] = sums.metrics
    for number, colour in enumerate(("red", "green", "blue"), start=1):
        only.accumulator.record([((colour,), number, 1)])
    return FamilyBuilder(METRIC, alias, selection).build([(sums, only)])


def as_dict(family: Family) -> dict[tuple[str, ...], object]:
    return {sample.labels: sample.value for sample in family.samples}


def family_named(recorder: Recorder, name: str) -> Family:
    (family,) = (family for family in recorder.snapshot() if family.name == name)
    return family


def test_alias_renames_labels() -> None:
    """A renamed label keeps its place and its values."""
    alias = Alias(name="x:things", rename={"colour": "hue"})

    family = told(alias)

    assert family.name == "x:things"
    assert family.label_names == ("model_name", "engine", "hue")
    assert as_dict(family) == {
        ("m", "0", "red"): 1,
        ("m", "0", "green"): 2,
        ("m", "0", "blue"): 3,
    }


def test_alias_adds_up_what_becomes_equal() -> None:
    """Values that another dialect does not distinguish are summed."""
    names = {"red": "warm", "green": "cold", "blue": "cold"}
    alias = Alias(name="x:things", values={"colour": names})

    family = told(alias)

    assert as_dict(family) == {("m", "0", "warm"): 1, ("m", "0", "cold"): 5}


def test_alias_drops_labels_and_leaves_out_values() -> None:
    """A dropped label is summed over, the values not listed left out."""
    only = {"colour": {"red": "", "blue": ""}}
    alias = Alias(
        name="x:things", values=only, drop=frozenset({"colour", "model_name"})
    )

    family = told(alias)

    assert family.label_names == ("engine",)
    assert as_dict(family) == {("0",): 4}


def test_family_does_not_change_afterwards() -> None:
    """A snapshot is a copy: what is counted later is not in it."""
    recorder = Recorder()
    recorder.engine_started(make_started())
    step = make_step(
        IterationStats(generation_tokens=2, inter_token_seconds=((0.1, 2),))
    )

    recorder.step_finished(step)
    before = recorder.snapshot()
    kept = copy.deepcopy(before)
    recorder.step_finished(step)

    assert before == kept
    assert before != recorder.snapshot()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm:num_requests_waiting", {(): 12}),
        ("vllm:num_requests_waiting_by_reason", {("capacity",): 3, ("deferred",): 9}),
        ("vllm:prompt_tokens", {(): 12}),
        (
            "vllm:prompt_tokens_by_source",
            {
                ("local_compute",): 7,
                ("local_cache_hit",): 4,
                ("external_kv_transfer",): 1,
            },
        ),
        ("vllm:prompt_tokens_cached", {(): 5}),
    ],
)
def test_vllm_families_are_sums_of_ours(
    name: str, expected: dict[tuple[str, ...], object]
) -> None:
    """Families that vLLM cuts otherwise come out of the same numbers."""
    recorder = Recorder()
    recorder.engine_started(make_started())

    recorder.step_finished(
        make_step(
            IterationStats(
                prompt_tokens_computed=7,
                prompt_tokens_local=4,
                prompt_tokens_external=1,
            ),
            SchedulerStats(waiting=3, held={"grammar": 4, "remote_kv": 5}),
        )
    )

    found = as_dict(family_named(recorder, name))
    assert found == {
        ("tiny", "0", *labels): value for labels, value in expected.items()
    }


def test_vllm_finish_reason_label_is_theirs() -> None:
    """Finished requests are request_success by finished_reason."""
    recorder = Recorder()
    recorder.engine_started(make_started())

    family = family_named(recorder, "vllm:request_success")

    assert family.label_names == ("model_name", "engine", "finished_reason")
    assert [sample.labels[2] for sample in family.samples] == [
        *("stop", "length", "abort", "error")
    ]


def test_series_know_since_when_they_count() -> None:
    """Counts of several engines count since the first one's start, gauges never."""
    clock = VirtualClock(100 * NANOSECONDS)
    config = EngineConfig(
        sections={"metrics": MetricsConfig(dialects=("sglang", "hookline"))}
    )
    recorder = Recorder(config, clock=clock)
    for index in range(2):
        clock.sleep(10)
        facts = dataclasses.replace(FACTS, engine_index=index)
        recorder.engine_started(make_started(facts))

    def since(name: str) -> list[float | None]:
        return [each.since for each in family_named(recorder, name).samples]

    assert since("hookline_generation_tokens") == [110.0, 120.0]
    assert set(since("sglang:inter_token_latency_seconds")) == {110.0}
    assert since("hookline_requests_running") == [None, None]
    assert set(since("hookline_event_loop_stalls")) == {100.0}


def test_restarted_engine_counts_since_its_first_start() -> None:
    """An engine that continues its counts keeps their beginning; another model counts
    anew."""
    clock = VirtualClock(100 * NANOSECONDS)
    recorder = Recorder(clock=clock)
    larger = dataclasses.replace(
        FACTS,
        model=dataclasses.replace(
            FACTS.model, max_model_len=2 * FACTS.model.max_model_len
        ),
    )

    found = []
    for facts in (FACTS, FACTS, larger):
        recorder.engine_started(make_started(facts))
        [sample] = family_named(recorder, "hookline_generation_tokens").samples
        found.append(sample.since)
        clock.sleep(10)

    assert found == [100.0, 100.0, 120.0]
