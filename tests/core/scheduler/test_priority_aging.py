"""Priority with aging: urgent requests go first, and nobody waits for ever."""

import pytest

from hookline.clock import VirtualClock
from hookline.config import Policy, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.scheduler.queue import MOST_LEVELS, Order
from hookline.exceptions import ConfigError
from hookline_testing.simulation import engine_request, run_to_end, simulated_core


def aging_core(seconds: float, clock: VirtualClock | None = None) -> EngineCore:
    return simulated_core(
        clock=clock,
        scheduler=SchedulerConfig(
            policy=Policy.PRIORITY, max_num_seqs=1, priority_aging=seconds
        ),
    )


def steps_until_served(core: EngineCore, most: int) -> int | None:
    """Each step of a second an urgent request comes; how long request 1 waits."""
    core.add(engine_request(1, [3], 1, priority=3))
    for step in range(most):
        core.add(engine_request(100 + step, [4], 1, priority=0))
        if any(each.request_id == 1 for each in core.step().events.scheduled):
            return step
    return None


def test_a_wait_makes_up_for_the_priority() -> None:
    """Three levels of ten seconds are thirty seconds."""
    waited = steps_until_served(aging_core(10.0), 200)

    assert waited is not None
    assert 29 <= waited <= 31


def test_without_aging_it_waits_as_long_as_others_come() -> None:
    """0 is the strict order."""
    assert steps_until_served(aging_core(0.0), 500) is None


def test_extreme_priorities_wait_a_bounded_time() -> None:
    """A client's number does not make its wait, or that of others, endless."""
    order = Order(is_by_priority=True, aging_ns=10)

    worst, best = order.level(10**18, since=0), order.level(-(10**18), since=0)

    assert worst - best == 2 * MOST_LEVELS * 10


def test_order_within_a_level_is_that_of_arrival() -> None:
    """Age does not change the order of equals."""
    clock = VirtualClock()
    core = aging_core(5.0, clock)
    for request_id in (7, 3, 5):
        core.add(engine_request(request_id, [3], 2, priority=1))
        clock.sleep(1.0)

    outputs = run_to_end(core)

    ends = [each.request_id for output in outputs for each in output.events.finished]
    assert ends == [7, 3, 5]


def test_aging_is_not_negative() -> None:
    """The option's error names it."""
    with pytest.raises(ConfigError, match="priority-aging"):
        SchedulerConfig(priority_aging=-1.0)
