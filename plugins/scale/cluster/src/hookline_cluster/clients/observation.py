"""Tells the loggers of the requests of a front end that does not own its engines."""

from collections.abc import Mapping

import msgspec

from hookline.events import ClockPair, StepOutput
from hookline.frontend.observing import REQUESTS
from hookline.payloads import EngineFacts
from hookline.request import RequestFacts
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_cluster.forwarding_observers import ForwardingObservers

_NOTHING = IterationStats()


class SecondaryClientObservers(ForwardingObservers):
    """Reports this front end's requests only: the owner reports the engines.

    So loggers hear of each event once, however many front ends there are.
    """

    def started(
        self,
        facts: EngineFacts,
        clock: ClockPair,  # noqa: ARG002 - the owner tells it
        *,
        restart_cause: str = "",  # noqa: ARG002
        resubmitted: int = 0,
    ) -> None:
        """Tells only of requests that the engine gets again."""
        if resubmitted:
            self._observers.observe(
                # Older than any state, so that it replaces none.
                StepOutput(facts.engine_index, 0, REQUESTS, SchedulerStats()),
                IterationStats(resubmitted=resubmitted),
                {},
            )

    def stopped(self, engine_index: int, reason: str) -> None:
        """Tells nothing."""

    def observe(
        self,
        output: StepOutput,
        iteration: IterationStats,
        facts: Mapping[int, RequestFacts],
    ) -> None:
        """Passes an output on if it concerns a request of this front end."""
        if not output.events.have_requests and iteration == _NOTHING:
            return
        events = msgspec.structs.replace(output.events, cache_changes=None)
        part = msgspec.structs.replace(output, cause=REQUESTS, events=events)
        self._observers.observe(part, iteration, facts)

    def front_end_ended(self, ended: SecondaryClientEnded) -> None:
        """Tells nothing."""
