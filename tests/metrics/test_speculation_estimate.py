"""The estimated speedup of speculative decoding: what it needs, and its bounds."""

import msgspec
import pytest

from hookline.clock import NANOSECONDS
from hookline.events import StepRecord, VerifiedDrafts
from hookline.stats.step_work import StepWork
from hookline_metrics.accumulators import FleetingGauge
from hookline_metrics.speculation import SpeculationYield
from hookline_testing.payloads import MILLISECOND, RECORD

DRAFTED = VerifiedDrafts(1, 4, 3, (1, 1, 1))
"""Three of four draft tokens accepted: a step gives four tokens."""


Steps = list[tuple[float, float]]
"""Their ends in seconds, and their durations in milliseconds."""


def record(
    at: float, took_ms: float, drafts: VerifiedDrafts | None = None
) -> StepRecord:
    """A step of one request that decodes."""
    ended = round(at * NANOSECONDS)
    return msgspec.structs.replace(
        RECORD,
        scheduled_at=ended - round(took_ms * MILLISECOND),
        executed_at=ended,
        ended_at=ended,
        work=StepWork(decode_requests=1, decode_tokens=1),
        verified=drafts or VerifiedDrafts(),
    )


def speedup(plain: Steps, drafted: Steps) -> float | None:
    """The estimate after steps without drafts, and then with them."""
    made = SpeculationYield()
    for at, took in plain:
        made.step(record(at, took))
    for at, took in drafted:
        made.step(record(at, took, DRAFTED))
    return made.reading(round((drafted or plain)[-1][0] * NANOSECONDS)).speedup


COLD = [(1.0, 500.0), *((1 + each / 10, 10.0) for each in range(1, 6))]
WARM = [(1 + each / 10, 10.0) for each in range(5)]
DRAFTS = [(2 + each / 10, 20.0) for each in range(10)]


@pytest.mark.parametrize(
    ("plain", "drafted", "expected"),
    [
        pytest.param(WARM, DRAFTS, 2.0, id="four tokens in the time of two"),
        pytest.param(COLD, DRAFTS, 2.0, id="the first step was slow"),
        pytest.param(WARM[:4], DRAFTS, None, id="too few steps without drafts"),
        pytest.param(WARM, [], None, id="no drafts"),
        pytest.param(WARM, [(90.0, 20.0)], None, id="a minute ago"),
        pytest.param(WARM, [(2.0, 1.0)], 4.0, id="more than the drafts can give"),
    ],
)
def test_estimate(plain: Steps, drafted: Steps, expected: float | None) -> None:
    """It needs recent steps without drafts, and is at most the mean length."""
    assert speedup(plain, drafted) == expected


def test_gauge_forgets_what_its_part_leaves_out() -> None:
    """A series without a value disappears, and comes back with one."""
    gauge = FleetingGauge()
    gauge.create(())
    seen = [dict(gauge.values)]

    for points in ([((), 2.0, 1)], [], [((), 3.0, 1)]):
        gauge.record(iter(points))
        seen.append(dict(gauge.values))

    assert seen == [{}, {(): 2.0}, {}, {(): 3.0}]
