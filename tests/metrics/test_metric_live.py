"""Rates, ages and shares as of the moment they are asked for."""

import dataclasses

import msgspec
import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig
from hookline.payloads import EngineFailed, FrontEndChanged
from hookline.request import RequestFacts, Slo
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_metrics import Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.front_end_parts import EngineHealth
from hookline_metrics.rate_window import RateWindow
from hookline_testing.payloads import (
    FINISHED,
    RECORD,
    make_started,
    make_state,
    make_step,
)

RATE = "generation_tokens_per_second"


def second(at: float) -> int:
    return round(at * NANOSECONDS)


class Watch:
    """A recorder and the clock that it reads."""

    def __init__(self) -> None:
        metrics = MetricsConfig(dialects=("hookline",))
        config = EngineConfig(sections={"metrics": metrics})
        self.clock = VirtualClock()
        self.recorder = Recorder(config, clock=self.clock)
        self.recorder.engine_started(make_started())

    def step(self, at: float, tokens: int = 0, *, running: int = 1) -> None:
        record = msgspec.structs.replace(RECORD, ended_at=second(at))
        self.recorder.step_finished(
            make_step(
                IterationStats(generation_tokens=tokens),
                SchedulerStats(running=running),
                record=record,
            )
        )

    def end(self, at: float, *requests: FinishedRequest) -> None:
        iteration = IterationStats(finished=requests)
        self.recorder.state_changed(make_state(iteration, at=second(at)))

    def judge(
        self, seconds: float | None, *, unheard: int = 0, age: float = 0.0
    ) -> None:
        health = EngineHealth(
            engine_index=0,
            stalled_seconds=seconds,
            reason="it sends nothing",
            unheard=unheard,
            oldest_unheard_seconds=age,
        )
        self.recorder.front_end_changed(FrontEndChanged(parts=(health,)))

    def gauge(self, name: str) -> float:
        (family,) = (
            family
            for family in self.recorder.snapshot()
            if family.name == f"hookline_{name}"
        )
        [sample] = family.samples
        assert isinstance(sample.value, float | int)
        return sample.value


MET = dataclasses.replace(FINISHED, facts=RequestFacts(slo=Slo(ttft=2.0)))
MISSED = dataclasses.replace(FINISHED, facts=RequestFacts(slo=Slo(ttft=1.0)))


def test_generation_rate_is_of_the_last_seconds() -> None:
    """Tokens older than the window do not count any more."""
    watch = Watch()

    for number in range(31):
        watch.step(number, tokens=10 if number < 20 else 40)

    assert watch.gauge("generation_tokens_per_second") == pytest.approx(40, rel=0.11)


def test_generation_rate_of_a_quiet_engine_is_zero() -> None:
    """When nothing runs there is no rate, whatever came a moment ago."""
    watch = Watch()
    watch.step(1, tokens=10)

    watch.end(1.5)

    assert watch.gauge("generation_tokens_per_second") == 0


def test_ages_grow_while_nothing_is_heard() -> None:
    """The step's age grows on, the snapshot's is as young as the last heartbeat."""
    watch = Watch()
    watch.clock.sleep(5)
    watch.step(5)

    watch.clock.sleep(3)
    watch.end(8)
    watch.clock.sleep(0.25)

    assert watch.gauge("last_step_age_seconds") == 3.25
    assert watch.gauge("snapshot_age_seconds") == 0.25


def test_ages_of_requests_grow_while_nothing_is_heard() -> None:
    """They are as of the scrape, not of the last report."""
    watch = Watch()
    watch.clock.sleep(10)
    stats = SchedulerStats(
        running=1, waiting=1, oldest_running_at=second(4), oldest_waiting_at=second(9)
    )
    watch.recorder.state_changed(make_state(at=second(10), scheduler=stats))

    watch.clock.sleep(30)

    assert watch.gauge("oldest_running_age_seconds") == 36
    assert watch.gauge("oldest_waiting_age_seconds") == 31


def test_a_stalled_engine_is_not_up() -> None:
    """Its stall grows at each scrape and is counted once; it may work again."""
    watch = Watch()
    watch.step(0, tokens=10)

    watch.judge(2.0)
    watch.clock.sleep(0.5)
    watch.judge(2.5)
    watch.clock.sleep(0.5)
    during = [watch.gauge(f"engine_{name}") for name in ("up", "stalled")]
    seconds, rate = watch.gauge("engine_stall_seconds"), watch.gauge(RATE)
    watch.judge(None)

    assert during == [0, 1]
    assert seconds == 3
    assert rate == 0
    assert [watch.gauge(f"engine_{name}") for name in ("up", "stalled")] == [1, 0]
    assert watch.gauge("engine_stall_seconds") == 0
    assert watch.gauge("engine_stalls") == 1


def test_requests_that_a_stalled_engine_has_not_confirmed_wait() -> None:
    """They are counted by the front end, and age from their arrival."""
    watch = Watch()
    watch.clock.sleep(10)
    watch.recorder.state_changed(make_state(at=second(10)))

    watch.judge(2.0, unheard=3, age=1.5)
    watch.clock.sleep(1)

    (waiting,) = (
        sample.value
        for family in watch.recorder.snapshot()
        if family.name == "hookline_requests_waiting"
        for sample in family.samples
        if "capacity" in str(sample.labels)
    )
    assert waiting == 3
    assert watch.gauge("oldest_waiting_age_seconds") == 2.5


def test_requests_that_begin_again_are_received_once() -> None:
    """Of three received two begin again at a new process, which gets a new one, too.

    Those that another front end reports as resubmitted do not count again, either.
    """
    watch = Watch()
    watch.recorder.state_changed(
        make_state(scheduler=SchedulerStats(totals=EngineTotals(received=3)))
    )
    watch.recorder.engine_failed(
        EngineFailed(engine_index=0, reason="x", open_requests=1)
    )
    started = dataclasses.replace(make_started(), restart_cause="exited", resubmitted=2)
    watch.recorder.engine_started(started)

    totals = [watch.gauge("requests_received")]
    for moved, received in ((1, 0), (2, 0), (2, 1)):
        sums = EngineTotals(received=received, migrated_in=moved)
        watch.recorder.state_changed(make_state(scheduler=SchedulerStats(totals=sums)))
        totals.append(watch.gauge("requests_received"))
    late = make_state(IterationStats(resubmitted=1), SchedulerStats(totals=sums))
    watch.recorder.state_changed(late)
    totals.append(watch.gauge("requests_received"))

    assert totals == [3, 3, 3, 4, 4]


def test_requests_that_a_dead_engine_had_not_heard_of_are_received() -> None:
    """A front end may report them between the end of one process and the next start."""
    stats = SchedulerStats(totals=EngineTotals(received=3))
    unheard = IterationStats(received_correction=2)
    watch = Watch()
    watch.recorder.state_changed(make_state(scheduler=stats))
    watch.recorder.engine_failed(
        EngineFailed(engine_index=0, reason="x", open_requests=1)
    )

    watch.recorder.state_changed(make_state(unheard, stats))
    after_the_end = watch.gauge("requests_received")
    watch.recorder.engine_started(
        dataclasses.replace(make_started(), restart_cause="exited")
    )
    watch.recorder.state_changed(
        make_state(scheduler=SchedulerStats(totals=EngineTotals(received=1)))
    )

    assert after_the_end == 5
    assert watch.gauge("requests_received") == 6


def test_attainment_is_the_share_that_met_their_objectives() -> None:
    """Three of four met theirs; a request without objectives does not count."""
    watch = Watch()

    watch.end(1, MET, MET, MISSED, FINISHED)
    watch.end(3, MET)

    assert watch.gauge("slo_attainment_ratio") == 0.75
    assert watch.gauge("goodput_requests_per_second") == pytest.approx(1.5)


def test_attainment_forgets() -> None:
    """After the window nothing is judged, and nothing is missed."""
    watch = Watch()
    watch.end(1, MISSED)

    watch.end(100)

    assert watch.gauge("slo_attainment_ratio") == 1


def test_dead_engine_is_not_up() -> None:
    """An engine that failed is not up, is not saturated and does no good."""
    watch = Watch()
    watch.end(1, MET)
    before = watch.gauge("engine_up")

    watch.recorder.engine_failed(
        EngineFailed(engine_index=0, reason="", open_requests=0)
    )

    assert (before, watch.gauge("engine_up")) == (1, 0)
    assert watch.gauge("goodput_requests_per_second") == 0
    assert watch.gauge("saturation_ratio") == 0


def test_window_adds_up_and_forgets() -> None:
    """The total is of the last ten seconds, to a slice."""
    window = RateWindow(10.0)
    for at in range(30):
        window.add(second(at), 1)

    assert window.total(second(29)) in {10, 11}
    assert window.rate(second(29)) == pytest.approx(1.0, abs=0.11)
    assert window.total(second(100)) == 0


def test_window_that_is_young_divides_by_its_age() -> None:
    """Two amounts in four seconds are half an amount a second."""
    window = RateWindow(10.0)
    window.add(second(0), 1)
    window.add(second(4), 1)

    assert window.rate(second(4)) == pytest.approx(0.5)


def test_window_that_never_saw_anything_is_zero() -> None:
    """No amount, no rate."""
    assert RateWindow(10.0).rate(second(5)) == 0
