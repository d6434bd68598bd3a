"""Objectives: which are missed, and which phase is to blame."""

import dataclasses

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import CacheConfig, SchedulerConfig
from hookline.config.readers import read_slo
from hookline.frontend.input_processor import over
from hookline.request import FinishReason, RequestFacts, Slo
from hookline.sampling_params import SamplingParams
from hookline.stats.finished_request import FinishedRequest
from hookline_metrics.slo import Phase, SloMiss, judge, misses_of, phases
from hookline_testing.observed import ObservedEngine
from hookline_testing.payloads import CAUSES, FINISHED
from hookline_testing.simulation import simulated_core

WHOLE = dataclasses.replace(
    FINISHED,
    queue_seconds=0.5,
    prefill_seconds=1.0,
    decode_seconds=4.0,
    inference_seconds=5.0,
    preempted_seconds=0.75,
    preempted_prefill_seconds=0.25,
    ttft_seconds=1.75,
    tpot_seconds=1.0,
    e2e_seconds=6.0,
)
"""A quarter of a second in the front end, before and after; stalls in both phases."""

IN_PREFILL = dataclasses.replace(
    WHOLE,
    prefill_seconds=None,
    decode_seconds=None,
    inference_seconds=None,
    preempted_seconds=0.0,
    preempted_prefill_seconds=0.0,
    ttft_seconds=None,
    tpot_seconds=None,
    e2e_seconds=3.0,
)
IN_QUEUE = dataclasses.replace(IN_PREFILL, queue_seconds=None)


def ended(request: FinishedRequest, reason: FinishReason) -> FinishedRequest:
    return dataclasses.replace(request, cause=CAUSES[reason])


def promised(slo: Slo, request: FinishedRequest) -> FinishedRequest:
    """A request that had objectives."""
    return dataclasses.replace(request, facts=RequestFacts(slo=slo))


def blamed(slo: Slo, request: FinishedRequest) -> dict[str, Phase]:
    misses = judge(promised(slo, request))
    assert misses is not None
    return {miss.objective: miss.phase for miss in misses}


def test_phases_add_up_to_the_whole() -> None:
    """Every second is in exactly one phase."""
    parts = phases(WHOLE)

    assert parts == {
        Phase.FRONT_END: 0.5,
        Phase.QUEUE: 0.5,
        Phase.PREFILL: 0.75,
        Phase.PREEMPTED: 0.75,
        Phase.DECODE: 3.5,
    }
    assert sum(parts.values()) == WHOLE.e2e_seconds


def test_phase_under_way_gets_the_rest() -> None:
    """A request that ended in the middle of a phase spent what is left there."""
    assert phases(IN_QUEUE)[Phase.QUEUE] == 3.0
    assert phases(IN_PREFILL)[Phase.PREFILL] == 2.5


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        (Slo(ttft=2.0, tpot=1.0, e2e=6.0), {}),
        (Slo(ttft=1.0), {"ttft": Phase.PREFILL}),
        (Slo(tpot=0.5), {"tpot": Phase.DECODE}),
        (Slo(e2e=5.0), {"e2e": Phase.DECODE}),
        (
            Slo(ttft=1.0, tpot=0.5, e2e=5.0),
            {"ttft": Phase.PREFILL, "tpot": Phase.DECODE, "e2e": Phase.DECODE},
        ),
    ],
)
def test_objectives_are_inclusive_bounds(slo: Slo, expected: dict[str, Phase]) -> None:
    """A value at the limit meets it; each exceeded limit is reported separately."""
    assert blamed(slo, WHOLE) == expected


@pytest.mark.parametrize(
    ("change", "phase"),
    [
        ({"queue_seconds": 3.0, "ttft_seconds": 4.0}, Phase.QUEUE),
        ({"ttft_seconds": 4.0, "e2e_seconds": 9.0}, Phase.FRONT_END),
        (
            {
                "prefill_seconds": 3.0,
                "preempted_seconds": 2.5,
                "preempted_prefill_seconds": 2.5,
                "ttft_seconds": 4.0,
            },
            Phase.PREEMPTED,
        ),
    ],
)
def test_longest_phase_is_to_blame(change: dict[str, float], phase: Phase) -> None:
    """Of the phases before the first token the longest is named."""
    request = dataclasses.replace(WHOLE, **change)  # type: ignore[arg-type]

    assert blamed(Slo(ttft=2.0), request) == {"ttft": phase}


def test_miss_has_seconds_and_limit() -> None:
    """A missed objective has the seconds taken and the limit."""
    assert judge(promised(Slo(ttft=1.0), WHOLE)) == (
        SloMiss("ttft", Phase.PREFILL, 1.75, 1.0),
    )


def test_request_without_a_first_token_missed_it_once_it_waited_too_long() -> None:
    """What an abandoned request had waited counts as its time to first token."""
    gone = ended(IN_QUEUE, FinishReason.ABORT)

    assert blamed(Slo(ttft=2.0), gone) == {"ttft": Phase.QUEUE}


def test_abandoned_request_that_missed_nothing_is_not_judged() -> None:
    """A client that leaves in time neither met nor missed anything."""
    assert judge(promised(Slo(ttft=5.0), ended(IN_QUEUE, FinishReason.ABORT))) is None


def test_failed_request_has_missed() -> None:
    """A request that failed in time has missed success."""
    failed = ended(IN_PREFILL, FinishReason.ERROR)

    assert blamed(Slo(ttft=5.0), failed) == {"success": Phase.PREFILL}


def test_rejected_request_is_not_judged() -> None:
    """A request that was not admitted has no objectives."""
    assert (
        judge(promised(Slo(ttft=0.1), ended(IN_QUEUE, FinishReason.REJECTED))) is None
    )


def test_request_without_objectives_is_not_judged() -> None:
    """Nothing was promised, so nothing is missed."""
    assert judge(WHOLE) is None
    assert misses_of(WHOLE) == ()


def test_former_properties_of_the_payload_still_work() -> None:
    """Loggers that read them are warned."""
    with pytest.warns(DeprecationWarning, match="hookline_metrics.slo"):
        misses = promised(Slo(ttft=1.0), WHOLE).slo_misses
    with pytest.warns(DeprecationWarning, match="hookline_metrics.slo"):
        is_judged = WHOLE.is_slo_judged

    assert [each.objective for each in misses] == ["ttft"]
    assert not is_judged


def test_one_token_has_no_time_per_output_token_to_miss() -> None:
    """Without a second token the objective tpot does not apply."""
    short = dataclasses.replace(WHOLE, tpot_seconds=None)

    assert judge(promised(Slo(tpot=0.001), short)) == ()


def test_own_objectives_win_and_the_engines_fill_in() -> None:
    """A request's objectives are laid over the engine's."""
    assert over(Slo(ttft=1.0), Slo(ttft=2.0, e2e=9.0)) == Slo(ttft=1.0, e2e=9.0)
    assert over(Slo(ttft=1.0), None) == Slo(ttft=1.0)


def test_parse_reads_what_users_type() -> None:
    """Objectives stand in any order, with blanks where one likes."""
    assert read_slo("tpot=0.05, ttft = 0.5") == Slo(ttft=0.5, tpot=0.05)


@pytest.mark.parametrize(
    "text",
    ["", "ttft", "itl=1", "ttft=fast", "ttft=0", "ttft=-1", "ttft=inf", "e2e=nan"],
)
def test_parse_refuses_what_makes_no_sense(text: str) -> None:
    """Each mistake is a ValueError that quotes it."""
    with pytest.raises(ValueError, match=r".+"):
        read_slo(text)


def test_parse_refuses_an_objective_twice() -> None:
    """Two limits for one objective are a contradiction."""
    with pytest.raises(ValueError, match="ttft is given twice"):
        read_slo("ttft=1,ttft=2")


def test_stalls_before_and_after_the_first_token_are_kept_apart() -> None:
    """A request preempted between chunks stalls in its prefill, on both clocks."""
    clock = VirtualClock(start=77 * NANOSECONDS)
    core = simulated_core(
        clock=clock,
        cache=CacheConfig(block_size=1, num_kv_blocks=8, enable_prefix_caching=False),
        scheduler=SchedulerConfig(max_num_seqs=8, long_prefill_token_threshold=2),
        max_model_len=8,
    )
    engine = ObservedEngine(core, clock)
    engine.submit([1] * 2, SamplingParams(max_tokens=6))
    engine.submit([2] * 5, SamplingParams(max_tokens=1))

    engine.run()

    stalled = engine.finished[2]
    assert stalled.preempted_seconds == stalled.preempted_prefill_seconds == 4.0
    assert stalled.times is not None
    [(start, end)] = stalled.times.preempted
    assert end - start == 4 * NANOSECONDS


def test_times_lie_on_the_wall_clock() -> None:
    """Times of both processes are on one time line, whatever their clocks."""
    clock = VirtualClock(start=77 * NANOSECONDS)
    engine = ObservedEngine(simulated_core(clock=clock), clock)
    engine.submit([1, 2, 3], SamplingParams(max_tokens=3))
    clock.sleep(0.5)

    engine.run()

    times = engine.finished[1].times
    assert times is not None
    seconds = [
        None if at is None else at / NANOSECONDS - 77
        for at in (
            *(times.arrived, times.queued, times.scheduled),
            *(times.first_token, times.last_token, times.ended),
        )
    ]
    assert seconds == [0.0, 0.5, 0.5, 1.5, 3.5, 3.5]
