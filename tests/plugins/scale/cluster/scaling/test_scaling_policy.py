"""A scaler asks for more engines in time, for fewer late, and does not flap."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from hookline_cluster.scaling.policy import (
    Scaler,
    ScalingDecision,
    ScalingPolicy,
    ScalingReason,
)

POLICY = ScalingPolicy(minimum=1, maximum=8)
EVERY = 5.0


def decisions(
    demand: Callable[[float], float], seconds: float, *, engines: int = 1
) -> list[ScalingDecision]:
    """What a scaler decides on a demand in engines, when it is obeyed at once."""
    scaler, found = Scaler(POLICY), list[ScalingDecision]()
    for step in range(round(seconds / EVERY)):
        at = step * EVERY
        saturations = [demand(at) / engines] * engines
        found.append(scaler.decide(at, saturations, engines))
        engines = found[-1].engines
    return found


def changes(found: list[ScalingDecision]) -> int:
    return sum(one.engines != other.engines for one, other in pairwise(found))


def test_a_demand_above_the_target_grows_at_once() -> None:
    """By as many engines as bring the mean to the target."""
    [first, *_] = decisions(lambda _: 1.5, 5)

    assert first == (3, ScalingReason.DEMAND)


def test_a_growing_demand_is_met_before_it_comes() -> None:
    """The engine is asked for when it takes as long to start as the target is away."""
    found = decisions(lambda at: 0.2 + at / 200, 200)

    first = next(at for at, each in enumerate(found) if each.engines > 1)
    assert found[first].reason is ScalingReason.TREND
    assert 0.2 + first * EVERY / 200 == pytest.approx(0.7 - 30 / 200, abs=0.05)


def test_engines_go_once_the_demand_was_low_for_long() -> None:
    """All at once, to what was enough all the time; not before."""
    found = decisions(lambda at: 2.0 if at < 50 else 0.3, 450, engines=3)

    begins = next(at for at, each in enumerate(found) if each.engines < 3)
    assert begins * EVERY == pytest.approx(50 + POLICY.quiet_seconds, abs=2 * EVERY)
    assert found[begins] == (1, ScalingReason.QUIET)
    assert found[-1] == (1, ScalingReason.STEADY)


@pytest.mark.parametrize("level", [0.4, 0.69, 1.39, 2.2, 3.5])
def test_noise_does_not_make_it_flap(level: float) -> None:
    """Of ten per cent, for ten hours: an engine is not given back and taken again."""
    source = random.Random(7)  # noqa: S311 - a test
    state = 0.0

    def demand(_: float) -> float:
        nonlocal state
        state = 0.7 * state + source.gauss(0.0, 0.07)
        return level * (1 + state)

    found = decisions(demand, 36_000, engines=math.ceil(level / 0.7))

    assert changes(found) <= 4


def test_limits_hold() -> None:
    """More than the maximum is not asked for, and that is told; nor is nothing."""
    [most] = decisions(lambda _: 8.0, 5, engines=8)
    least = decisions(lambda _: 0.0, 400, engines=2)[-1]

    assert most == (8, ScalingReason.MAXIMUM)
    assert least == (1, ScalingReason.STEADY)


def test_a_long_backlog_counts_as_two_engines() -> None:
    """How long it is says little about how many engines the load needs."""
    decision = Scaler(POLICY).decide(0.0, [10.0], 1)

    assert decision == (3, ScalingReason.DEMAND)


def test_a_trend_that_ends_early_does_not_flap() -> None:
    """What it brought stays as long as any other engine."""
    found = decisions(lambda at: min(max(0.02, (at - 200) / 80), 0.45), 600)

    grown = next(at for at, each in enumerate(found) if each.engines == 2)
    shrunk = next(
        at for at, each in enumerate(found) if at > grown and each.engines == 1
    )
    assert found[grown].reason is ScalingReason.TREND
    assert (shrunk - grown) * EVERY >= POLICY.quiet_seconds
    assert changes(found) == 2
