"""What a front end does when an engine has left because fewer are wanted."""

from hookline.exceptions import EngineDeadError
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet
from hookline_cluster.balancing.router import BalancedRouter

LEFT = "it has left, because fewer engines are wanted"
"""The reason that its last requests and calls end with."""


def forget_engine(
    index: int, engines: EngineSet, router: BalancedRouter, calls: PendingCalls
) -> None:
    """Fails the open calls to an engine, and places nothing on it any more."""
    calls.fail(index, EngineDeadError(LEFT))
    engines.remove(index)
    router.left(index)
