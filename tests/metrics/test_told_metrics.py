"""Which metrics a recorder shows: those of what its engines tell."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from hookline.tells import Tells
from hookline_metrics import CATALOGUE, Recorder
from hookline_metrics.engine_tells import NATIVE, SIMULATED
from hookline_metrics.front_end_parts import TextStats
from hookline_metrics.needs import needs_of
from hookline_testing.payloads import make_started


def started(engine: int, tells: Collection[Tells]) -> object:
    begun = make_started()
    facts = replace(begun.facts, engine_index=engine, tells=tuple(tells))
    return replace(begun, facts=facts)


def shown(recorder: Recorder) -> dict[str, set[str]]:
    """The engines of each family on a page."""
    return {
        family.name: {each for sample in family.samples for each in sample.labels[1:2]}
        for family in recorder.snapshot()
        if family.name.startswith("hookline")
    }


@pytest.mark.parametrize("told", Tells)
def test_a_metric_is_shown_if_all_is_told_that_it_needs(told: Tells) -> None:
    """Without one thing told, exactly the families that need it are left out."""
    whole, partial = Recorder(), Recorder()
    whole.engine_started(started(0, Tells))  # type: ignore[arg-type]
    others = [each for each in Tells if each is not told]

    partial.engine_started(started(0, others))  # type: ignore[arg-type]

    missing = shown(whole).keys() - shown(partial).keys()
    features = {metric.name for metric in CATALOGUE if metric.feature is not None}
    assert (
        missing - features
        == {
            metric.name
            for metric in CATALOGUE
            if metric.is_own and told in needs_of(metric)
        }
        - features
    )


def test_engines_of_one_page_may_tell_different_things() -> None:
    """A family has the series of those engines alone that tell it."""
    recorder = Recorder()
    recorder.engine_started(started(0, Tells))  # type: ignore[arg-type]

    recorder.engine_started(started(1, [Tells.LOAD]))  # type: ignore[arg-type]

    found = shown(recorder)
    assert found["hookline_requests_running"] == {"0", "1"}
    assert found["hookline_step_tokens"] == {"0"}


def test_parts_of_a_front_end_need_one() -> None:
    """A gateway has no texts to detokenize, so its page says nothing of them."""
    recorder = Recorder()
    recorder.engine_started(started(0, [Tells.LOAD]))  # type: ignore[arg-type]

    families = {metric.name for metric in CATALOGUE if metric.value.kind is TextStats}

    assert families
    assert not families & shown(recorder).keys()


def test_a_successor_shows_the_same() -> None:
    """What an engine does not tell is not 0 in the page of the next process either."""
    recorder, successor = Recorder(), Recorder()
    recorder.engine_started(started(0, [Tells.LOAD]))  # type: ignore[arg-type]

    successor.go_on(recorder.kept())

    assert not {"hookline_step_tokens", "hookline_preemptions"} & {
        name for name, engines in shown(successor).items() if engines
    }


def test_own_engines_declare_each_thing_once() -> None:
    """Of the native and the simulated one it is known what they tell."""
    for each in (NATIVE, SIMULATED):
        declared = [*each.always, *each.sometimes, *each.never]

        assert sorted(declared) == sorted(Tells)
