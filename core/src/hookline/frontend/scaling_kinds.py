"""Chooses who decides on the number of engines: the front end, or their owner."""

from hookline.clock import Clock
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_following import EndEngine, EngineFollowing
from hookline.frontend.engine_scaling import EngineScaling
from hookline.frontend.engine_set import EngineSet
from hookline.frontend.observing import Observing
from hookline.frontend.placement import Placement


def make_scaling(
    engines: EngineSet,
    placement: Placement,
    calls: PendingCalls,
    observers: Observing,
    clock: Clock,
    *,
    end: EndEngine,
) -> EngineScaling | EngineFollowing:
    """Returns what adds and removes a front end's engines, or follows who does.

    Args:
        engines: The engines.
        placement: Chooses among them.
        calls: Open calls to them.
        observers: The loggers.
        clock: The front end's clock.
        end: Ends the requests of an engine that has ended, for a reason.
    """
    if (visits := engines.client.visits) is None:
        return EngineScaling(engines, placement, calls, observers, clock)
    return EngineFollowing(engines, placement, calls, clock, visits=visits, end=end)
