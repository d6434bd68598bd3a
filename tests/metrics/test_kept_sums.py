"""Sums that outlive the process of their recorder."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from hookline.clock import VirtualClock
from hookline.config import EngineConfig
from hookline.events import ClockPair
from hookline.front_end_parts import TransportStats
from hookline.payloads import (
    EngineStopped,
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
)
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_metrics import HistogramValue, Kind, Recorder
from hookline_metrics.config import MetricsConfig
from hookline_metrics.keeper import KEEP_SECONDS, Keeper
from hookline_registry import LaneStats
from hookline_testing.payloads import FINISHED, make_started, make_state

CONFIG = EngineConfig(
    sections={"metrics": MetricsConfig(dialects=("hookline", "vllm"), max_tenants=2)}
)
EXCHANGE = HttpExchange(
    route="/v1/completions",
    method="POST",
    status=200,
    seconds=0.5,
    request_bytes=100,
    response_bytes=30,
)
Counts = dict[tuple[str, tuple[str, ...]], float]


def totals(received: int, finished: int) -> SchedulerStats:
    return SchedulerStats(
        totals=EngineTotals(
            received=received, finished={"stop": finished}, computed_tokens=received * 9
        )
    )


def ends(count: int, tenant: str = "t") -> IterationStats:
    request = dataclasses.replace(FINISHED, facts=RequestFacts(tenant=tenant))
    return IterationStats(
        finished=(request,) * count,
        generation_tokens=5 * count,
        inter_token_seconds=((0.01, 4 * count),),
    )


def lane(delivered: int) -> LaneStats:
    return LaneStats(
        name="there",
        depth=0,
        delivered=delivered,
        dropped=0,
        errors=0,
        busy_seconds=0.5,
        breaker="closed",
        last_error=None,
    )


def fed(recorder: Recorder) -> Recorder:
    """Has it count something of everything."""
    recorder.engine_started(make_started())
    recorder.state_changed(
        make_state(ends(3), totals(5, 3), at=10, lanes=(lane(delivered=7),))
    )
    recorder.http_answered(HttpAnswered(exchanges=(EXCHANGE,) * 3, in_flight={}))
    recorder.front_end_changed(FrontEndChanged(parts=(TransportStats(dropped=4),)))
    return recorder


def counts(recorder: Recorder) -> Counts:
    """All numbers that must never fall."""
    found: Counts = {}
    for family in recorder.snapshot():
        if family.kind is Kind.GAUGE:
            continue
        for sample in family.samples:
            value, key = sample.value, (family.name, sample.labels)
            if isinstance(value, HistogramValue):
                found[key] = value.count
                found[f"{family.name} sum", sample.labels] = value.sum
                for bound, count in zip(value.bounds, value.counts, strict=False):
                    found[f"{family.name} {bound}", sample.labels] = count
            else:
                found[key] = value
    return found


def one(recorder: Recorder, name: str) -> float:
    return sum(value for (found, _), value in counts(recorder).items() if found == name)


def successor(recorder: Recorder, clock: VirtualClock | None = None) -> Recorder:
    made = Recorder(CONFIG, clock=clock)
    made.go_on(recorder.kept())
    return made


def again(ended_before: int, *, process: int = 0) -> object:
    """The start that a new observer process is told of."""
    return dataclasses.replace(
        make_started(),
        clock=ClockPair(wall=process, monotonic=process),
        ended_before=ended_before,
    )


def test_nothing_falls_in_a_successor() -> None:
    """
    Every counter and every bucket is what it was, before and after the engine is told
    of, and each has the time at which it began.
    """
    clock = VirtualClock()
    recorder = fed(Recorder(CONFIG, clock=clock))
    before = counts(recorder)
    since = {
        (family.name, each.labels): each.since
        for family in recorder.snapshot()
        for each in family.samples
    }
    clock.sleep(50.0)

    new = successor(recorder, clock)

    assert before
    assert before.items() <= counts(new).items()
    new.engine_started(again(3))  # type: ignore[arg-type]
    new.state_changed(make_state(scheduler=totals(5, 3), at=20))
    assert before == counts(new)
    for family in new.snapshot():
        for each in family.samples:
            assert each.since == since.get((family.name, each.labels), each.since)


def test_counting_goes_on() -> None:
    """
    What comes later is added, once: to sums of events, to the engine's totals, to those
    of front ends, and to those of this process's own lanes.
    """
    new = successor(fed(Recorder(CONFIG)))
    new.engine_started(again(3))  # type: ignore[arg-type]

    new.state_changed(
        make_state(ends(1), totals(8, 4), at=20, lanes=(lane(delivered=2),))
    )
    new.http_answered(HttpAnswered(exchanges=(EXCHANGE,), in_flight={}))
    new.front_end_changed(FrontEndChanged(parts=(TransportStats(dropped=6),)))

    assert one(new, "hookline_requests_received") == 8
    assert one(new, "hookline_requests_finished") == 4
    assert one(new, "hookline_generation_tokens") == 20
    assert one(new, "hookline_computed_tokens") == 72
    assert one(new, "hookline_http_requests") == 4
    assert one(new, "hookline_transport_messages_dropped") == 6
    assert one(new, "hookline_logger_delivered_batches") == 9


def test_ends_that_were_not_kept_were_received_by_nobody() -> None:
    """
    So that received = finished + in flight, although two ends came between the last
    writing and the end of the process.
    """
    new = successor(fed(Recorder(CONFIG)))

    new.engine_started(again(5))  # type: ignore[arg-type]
    new.state_changed(make_state(scheduler=totals(9, 5), at=20))

    received = one(new, "hookline_requests_received")
    assert received - one(new, "hookline_requests_finished") == 9 - 5


def test_requests_that_came_from_another_engine_are_no_loss() -> None:
    """
    They end here, but the start's number leaves them out.
    """
    recorder = fed(Recorder(CONFIG))
    moved = dataclasses.replace(ends(2), migrated_in=2)
    recorder.state_changed(make_state(moved, totals(5, 5), at=11))

    new = successor(recorder)
    new.engine_started(again(3))  # type: ignore[arg-type]
    new.state_changed(make_state(scheduler=totals(5, 5), at=20))

    assert one(new, "hookline_requests_received") == 5
    assert one(new, "hookline_requests_finished") == 5


def test_an_engine_that_was_replaced_meanwhile_counts_from_0() -> None:
    """
    Its totals are added to those of the process before it.
    """
    new = successor(fed(Recorder(CONFIG)))

    new.engine_started(again(0, process=77))  # type: ignore[arg-type]
    new.state_changed(make_state(ends(1), totals(2, 1), at=90))

    assert one(new, "hookline_requests_received") == 7
    assert one(new, "hookline_computed_tokens") == 63


def test_an_engine_that_has_left_keeps_its_counters_and_has_no_gauges() -> None:
    """
    And so it is in the process after the next, too.
    """
    recorder = fed(Recorder(CONFIG))
    recorder.engine_stopped(EngineStopped(engine_index=0, reason="removed"))
    before = counts(recorder)

    new = successor(successor(recorder))

    assert before.items() <= counts(new).items()
    engines = {
        sample.labels
        for family in new.snapshot()
        if family.kind is Kind.GAUGE and "engine" in family.label_names
        for sample in family.samples
    }
    assert not engines


def test_labels_stay_bounded() -> None:
    """
    A successor passes the tenants that were there, and no more than before.
    """
    recorder = Recorder(CONFIG)
    recorder.engine_started(make_started())
    for tenant in ("a", "b", "c"):
        recorder.state_changed(make_state(ends(1, tenant)))
    new = successor(recorder)
    new.engine_started(again(3))  # type: ignore[arg-type]
    for tenant in ("d", "b"):
        new.state_changed(make_state(ends(1, tenant), at=20))

    [family] = [
        each
        for each in new.snapshot()
        if each.name == "hookline_tenant_requests_finished"
    ]
    place = family.label_names.index("tenant")
    tenants = {each.labels[place] for each in family.samples}
    assert {"a", "b", "other"} <= tenants
    assert not {"c", "d"} & tenants
    assert one(new, "hookline_label_values_folded") >= 2


def test_a_file_carries_them_over(tmp_path: Path) -> None:
    """
    It is written now and then, and whenever it must be; one that is no use is told.
    """
    now = [0.0]
    path = tmp_path / "prometheus.kept"
    recorder = Recorder(CONFIG)
    keeper = Keeper(path, recorder, clock=lambda: now[0])
    fed(recorder)

    keeper.keep_now_and_then()
    assert not path.exists()
    now[0] += KEEP_SECONDS
    keeper.keep_now_and_then()

    new = Recorder(CONFIG)
    Keeper(path, new)
    assert counts(recorder).items() <= counts(new).items()


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode([1])])
def test_a_file_of_no_use_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """
    Counters begin at 0 then, and the logger works.
    """
    path = tmp_path / "prometheus.kept"
    path.write_bytes(content)
    recorder = Recorder(CONFIG)

    keeper = Keeper(path, recorder)

    assert "counters begin at 0" in caplog.text
    fed(recorder)
    keeper.keep()
    assert path.read_bytes() != content


def test_a_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A full disk, or a label that is no text, costs the counters at most.
    """
    recorder = fed(Recorder(CONFIG))
    keeper = Keeper(tmp_path / "missing" / "kept", recorder)

    keeper.keep()
    keeper.keep()

    assert caplog.text.count("counters are not kept") == 1


def test_what_is_kept_is_small() -> None:
    """
    It is written at each scrape.
    """
    assert len(fed(Recorder(CONFIG)).kept()) < 200_000
