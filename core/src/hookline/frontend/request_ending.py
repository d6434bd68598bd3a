"""Ends all requests of an engine that has ended, or that is closed."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from hookline.events import Finished, StepEvents, StepOutput
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.observing import Observing
from hookline.payloads import EngineFailed
from hookline.request import FinishReason

_log = logging.getLogger(__name__)


class RequestEnding:
    """Ends requests and calls of engines and notifies the loggers; for one thread."""

    def __init__(
        self, engines: EngineSet, calls: PendingCalls, observers: Observing
    ) -> None:
        """Ends requests of these engines, and open calls to them."""
        self._engines = engines
        self._calls = calls
        self._observers = observers

    def fail(
        self, engine: EngineState, reason: str, keep: Collection[int] = ()
    ) -> None:
        """Ends the requests of an engine that is dead for good, except `keep`."""
        if engine.failure is not None:
            return
        error, was_up = EngineDeadError(reason), engine.death is None
        self.report_failure(engine, reason, error, keep, was_up=was_up)
        engine.mark_ended(reason)
        if self._engines.client.owns_engines:
            _log.error(
                "engine %d has ended: %s; its last log lines are before this one",
                engine.index,
                reason,
            )

    def close(self, engine: EngineState) -> None:
        """Ends all requests of an engine that was closed."""
        cause = Aborted("the engine was closed")
        self._calls.fail(engine.index, EngineDeadError("it was closed"))
        error = EngineDeadError(cause.by)
        self.end_all(engine, cause, "drain", error, was_up=engine.death is None)
        engine.mark_ended("it was closed")
        self._observers.stopped(engine.index, "closed")

    def report_failure(
        self,
        engine: EngineState,
        reason: str,
        error: EngineDeadError,
        keep: Collection[int] = (),
        *,
        was_up: bool = True,
        is_final: bool = True,
    ) -> None:
        """Ends requests and calls of an ended engine, and notifies the loggers.

        Args:
            engine: The engine.
            reason: Why it has ended, in one clause.
            error: What clients get.
            keep: Ids of the completions that go on.
            was_up: Whether its process ran.
            is_final: Whether it is gone for good.
        """
        self._calls.fail(engine.index, error)
        received = self._received_of(engine) if was_up else None
        events = self.end_all(
            engine, Failed(reason), "failed", error, keep, was_up=was_up
        )
        errors = sum(event.reason is FinishReason.ERROR for event in events)
        failed = EngineFailed(
            engine_index=engine.index,
            reason=reason,
            open_requests=errors,
            is_final=is_final,
        )
        self._observers.failed(failed, received, engine.accounting.in_flight)

    def end_all(
        self,
        engine: EngineState,
        cause: Aborted | Failed,
        state: str,
        error: EngineDeadError,
        keep: Collection[int] = (),
        *,
        was_up: bool,
    ) -> Sequence[Finished]:
        """Ends an engine's requests, except those in `keep`, and notifies the loggers.

        Args:
            engine: The engine.
            cause: Why they end.
            state: The cause of the state that loggers get.
            error: What clients get.
            keep: Ids of the completions that go on.
            was_up: Whether its process ran.
        """
        # Requests on their way when the engine ended count as received; those that
        # wait for its replacement have been counted when it ended.
        received = engine.stats.totals.received
        unheard = engine.accounting.num_unheard if was_up else 0
        is_alone = self._engines.client.owns_engines
        rest = engine.stats.at_rest()
        received += unheard * is_alone
        totals = msgspec.structs.replace(rest.totals, received=received)
        engine.stats = msgspec.structs.replace(rest, totals=totals)
        iteration, events = engine.outputs.end_all(cause, error, keep)
        if not is_alone:
            iteration = replace(iteration, received_correction=unheard)
        facts = {each.request_id: each.facts for each in iteration.finished}
        at, stats, ended = engine.stats_at, engine.stats, StepEvents(finished=events)
        output = StepOutput(engine.index, at, state, stats, events=ended)
        self._observers.observe(output, iteration, facts)
        return events

    def _received_of(self, engine: EngineState) -> int:
        """Returns how many requests in flight the ended engine's totals include."""
        accounting = engine.accounting
        unheard = accounting.num_unheard if self._engines.client.owns_engines else 0
        each_in_flight = accounting.in_flight.values()
        return unheard + sum(each.timeline.was_queued for each in each_in_flight)
