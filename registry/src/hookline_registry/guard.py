"""Calls a plugin, records its failures, and stops calling it after several."""

import time
from collections.abc import Callable
from typing import TypeVar

from hookline_registry.breaker import Breaker
from hookline_registry.failure_log import FailureLog, Kind
from hookline_registry.isolation import Failure, isolate

Result = TypeVar("Result")


class PluginGuard:
    """The failure log and the breaker of one plugin; for one thread.

    Attributes:
        failures: The plugin's failures.
        breaker: The circuit breaker, which decides whether the plugin is called.
    """

    def __init__(
        self,
        plugin: str,
        *,
        failures: int,
        cool_down_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the guard of a plugin.

        Args:
            plugin: Role and name, as log lines show them, such as `proposer ngram`.
            failures: Consecutive failures that open the breaker.
            cool_down_seconds: Time that an open breaker waits before a trial.
            clock: Monotonic clock in seconds.
        """
        self.failures = FailureLog(plugin, clock=clock)
        self.breaker = Breaker(
            failures=failures, cool_down_seconds=cool_down_seconds, clock=clock
        )

    def call(
        self, kind: Kind, call: Callable[..., Result], *arguments: object
    ) -> Result | Failure:
        """Calls the plugin; a failure is recorded under `kind`."""
        outcome = isolate(call, *arguments)
        if isinstance(outcome, Failure):
            self.fail(kind, outcome.summary, error=outcome.error)
        return outcome

    def fail(
        self, kind: Kind, detail: str, *, error: BaseException | None = None
    ) -> None:
        """Records a failure in the log and with the breaker."""
        self.failures.note(kind, detail, error=error)
        self.breaker.record([False])
