"""Labels with values from clients stay bounded."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.config import EngineConfig
from hookline.payloads import HttpAnswered, HttpExchange
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline_metrics import Family, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.label_guard import LabelGuard
from hookline_testing.payloads import FINISHED, make_started, make_state


def recorder_with(max_tenants: int, tenants: tuple[str, ...] = ()) -> Recorder:
    metrics = MetricsConfig(
        dialects=("hookline",), max_tenants=max_tenants, tenants=tenants
    )
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    recorder.engine_started(make_started())
    return recorder


def finish(recorder: Recorder, *tenants: str | None) -> None:
    """A request of each tenant ends."""
    finished = tuple(
        dataclasses.replace(FINISHED, facts=RequestFacts(tenant=tenant))
        for tenant in tenants
    )
    recorder.state_changed(make_state(IterationStats(finished=finished)))


def family_named(recorder: Recorder, name: str) -> Family:
    (family,) = (each for each in recorder.snapshot() if each.name == name)
    return family


def requests_by_tenant(recorder: Recorder) -> dict[str, object]:
    family = family_named(recorder, "hookline_tenant_requests_finished")
    return {sample.labels[2]: sample.value for sample in family.samples}


def folded(recorder: Recorder, label: str) -> object:
    family = family_named(recorder, "hookline_label_values_folded")
    return next(s.value for s in family.samples if s.labels[1:] == (label,))


def test_first_tenants_have_a_value_and_the_rest_are_other() -> None:
    """Past the cap a tenant is counted as other; earlier ones keep their value."""
    recorder = recorder_with(2)

    finish(recorder, "a", "b", "c", "a", "d", None)

    assert requests_by_tenant(recorder) == {"a": 2, "b": 1, "other": 2, "none": 1}


def test_listed_tenants_alone_have_a_value() -> None:
    """With an allow-list no other tenant gets a value, even below the cap."""
    recorder = recorder_with(50, ("b", "c"))

    finish(recorder, "a", "b", "c")

    assert requests_by_tenant(recorder) == {"other": 1, "b": 1, "c": 1}


def test_tenant_has_the_same_value_in_every_metric() -> None:
    """A value that is folded in one family is folded in all."""
    recorder = recorder_with(1)

    finish(recorder, "a", "b")

    for name in ("prompt_tokens", "generation_tokens", "request_e2e_seconds"):
        family = family_named(recorder, f"hookline_tenant_{name}")
        assert {sample.labels[2] for sample in family.samples} == {"a", "other"}


def test_folded_values_are_counted() -> None:
    """Each reading of a folded value counts, under the label's name."""
    recorder = recorder_with(1)

    finish(recorder, "a", "b", "c")

    metrics_with_tenants = 6
    assert folded(recorder, "tenant") == 2 * metrics_with_tenants


def test_no_tenants_no_metrics() -> None:
    """Without --max-tenants a tenant reaches no label at all."""
    recorder = recorder_with(0)

    finish(recorder, "a")

    values = {
        label
        for family in recorder.snapshot()
        for sample in family.samples
        for label in sample.labels
    }
    assert "a" not in values


def test_routes_are_bounded_too() -> None:
    """Even if a server reported paths as routes, series would stay bounded."""
    recorder = recorder_with(0)
    exchanges = tuple(
        HttpExchange(
            route=f"/{number}",
            method="GET",
            status=200,
            seconds=0.1,
            request_bytes=0,
            response_bytes=0,
        )
        for number in range(1000)
    )

    recorder.http_answered(HttpAnswered(exchanges=exchanges, in_flight={}))

    family = family_named(recorder, "hookline_http_requests")
    assert len(family.samples) == 65
    assert sum(s.value for s in family.samples if isinstance(s.value, float)) == 1000


@pytest.mark.parametrize("value", ["", "none"])
def test_no_value_is_none(value: str) -> None:
    """What has no value takes no room."""
    guard = LabelGuard(1)

    assert guard.fold(value) == "none"
    assert guard.fold("a") == "a"
    assert guard.folded == 0


def test_known_values_are_never_folded() -> None:
    """They keep their series, however many others came before them."""
    guard = LabelGuard(1, known=("a",))

    assert [guard.fold(value) for value in "bca"] == ["b", "other", "a"]


@given(st.lists(st.text(max_size=3)), st.integers(0, 4))
def test_guard_bounds_the_number_of_values(values: list[str], cap: int) -> None:
    """There are never more than `cap` values besides other and none."""
    guard = LabelGuard(cap)

    told = {guard.fold(value) for value in values}

    assert len(told - {"other", "none"}) <= cap
