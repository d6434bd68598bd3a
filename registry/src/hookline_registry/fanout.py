"""Delivers events to every observing plugin, each in its own lane."""

import time
from collections.abc import Callable, Mapping, Sequence

from hookline_registry.breaker import Breaker
from hookline_registry.lane import Around, Lane, LaneStats, Notice
from hookline_registry.registry import PluginRegistry


class Fanout:
    """The lanes of all observing plugins.

    Plugins are resolved at construction; those registered later get no events.
    """

    def __init__(
        self,
        registry: PluginRegistry,
        plugin_names: Mapping[str, Sequence[str]],
        *,
        bound: int,
        failures: int,
        cool_down_seconds: float,
        linger_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        around: Around | None = None,
    ) -> None:
        """Makes the lanes; their threads start with the first batch.

        Args:
            registry: The registry of the plugins.
            plugin_names: Registered plugins of each lane, by lane name.
            bound: Maximum number of batches that wait in a lane.
            failures: Consecutive errors that open a plugin's breaker.
            cool_down_seconds: How long a breaker stays open before a trial.
            linger_seconds: How long batches may wait to be delivered together.
            clock: Monotonic clock in seconds.
            around: Encloses each delivery to a lane's plugins; None for nothing.
        """
        callers = {name: registry.callers(own) for name, own in plugin_names.items()}
        self._hooks = frozenset(hook for lane in callers.values() for hook in lane)
        self._lanes = {
            name: Lane(
                name,
                callers[name],
                bound=bound,
                breaker=Breaker(
                    failures=failures, cool_down_seconds=cool_down_seconds, clock=clock
                ),
                linger_seconds=linger_seconds,
                clock=clock,
                around=around,
            )
            for name in plugin_names
        }

    @property
    def hooks(self) -> frozenset[str]:
        """Names of the hooks that any plugin implements."""
        return self._hooks

    def listens(self, hook: str) -> bool:
        """Whether any plugin implements the hook."""
        return hook in self._hooks

    def submit(self, batch: Sequence[Notice]) -> None:
        """Submits a batch to every lane that it concerns; never blocks or raises."""
        for lane in self._lanes.values():
            lane.submit(batch)

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every batch submitted so far is delivered or dropped.

        Returns:
            False if a lane did not finish in time.
        """
        return self._each(Lane.flush, timeout_seconds)

    def settle(self, name: str, timeout_seconds: float) -> float:
        """Waits until one lane's batches so far are delivered or dropped.

        Returns:
            How long the oldest of those has waited that are not; 0 if all are.
        """
        lane = self._lanes[name]
        return 0.0 if lane.flush(timeout_seconds) else lane.stats.waited_seconds

    def close(self, timeout_seconds: float) -> bool:
        """Flushes and ends the lanes; a plugin that hangs is abandoned.

        Returns:
            False if some plugin was abandoned. May be called again.
        """
        return self._each(Lane.close, timeout_seconds)

    @property
    def stats(self) -> tuple[LaneStats, ...]:
        """State of each lane."""
        return tuple(lane.stats for lane in self._lanes.values())

    def _each(
        self, wait: Callable[[Lane, float], bool], timeout_seconds: float
    ) -> bool:
        # Lanes run concurrently, so one deadline serves all.
        deadline = time.monotonic() + timeout_seconds
        results = [
            wait(lane, max(0.0, deadline - time.monotonic()))
            for lane in self._lanes.values()
        ]
        return all(results)
