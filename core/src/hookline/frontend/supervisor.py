"""What becomes of requests when their engine dies, stalls or is replaced."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from hookline.config.supervision import StallPolicy
from hookline.core.commands import Add, Finish
from hookline.events import Finished, StepEvents, StepOutput
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    EngineStalledError,
)
from hookline.finish_cause import Aborted, Failed
from hookline.frontend.calls import PendingCalls
from hookline.frontend.client_request import CompletionState, seconds_until
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_watch import Stall
from hookline.frontend.extension import FrontEndExtension
from hookline.frontend.observing import Observing
from hookline.request import FinishReason
from hookline.transport.engine_client import (
    DeathKind,
    EngineDied,
    EngineProcesses,
    EngineReplaced,
)

_log = logging.getLogger(__name__)


class Supervisor:
    """Ends requests of engines, or begins them again; for the front end's thread.

    That of the engines' owner also kills and replaces their processes.
    """

    def __init__(
        self,
        engines: EngineSet,
        calls: PendingCalls,
        observers: Observing,
        stall_policy: StallPolicy,
        extension: FrontEndExtension | None = None,
    ) -> None:
        """Supervises these engines.

        Args:
            engines: The engines.
            calls: Open calls to them.
            observers: The loggers.
            stall_policy: What becomes of the requests of an engine that has stalled.
            extension: Hears of deaths and stalls, and may move requests elsewhere.
        """
        self._engines = engines
        self._calls = calls
        self._observers = observers
        self._extension = extension
        self._stall_policy = stall_policy

    @property
    def _processes(self) -> EngineProcesses | None:
        return self._engines.client.capability(EngineProcesses)

    # -- stalls ------------------------------------------------------------------

    def gives_up(self, stall: Stall) -> bool:
        """Whether a stalled engine gets no more requests."""
        return stall.is_final and self._stall_policy is not StallPolicy.WAIT

    def take_stall(self, engine_index: int, stall: Stall | None) -> None:
        """Takes the watchdog's verdict on an engine; None if it works again."""
        engine = self._engines[engine_index]
        if engine.failure is not None or engine.death is not None:
            return
        engine.stall = stall
        if self._extension is not None:
            self._extension.judged(engine_index, stall)
        if stall is None or not self.gives_up(stall):
            return
        processes = self._processes
        if engine.is_surplus and processes is not None:
            processes.kill(engine_index, f"it stalled: {stall.reason}")
        elif self._stall_policy is not StallPolicy.RESTART:
            self._give_up_requests(engine, stall)
        elif processes is not None:
            reason = f"its process was killed, because {stall.reason}"
            processes.kill(engine_index, reason)
        elif self._engines.client.owns_engines:  # in this process
            self._give_up_requests(engine, stall)

    def _give_up_requests(self, engine: EngineState, stall: Stall) -> None:
        """Ends all open requests for their clients; the engine does so if it wakes."""
        error = EngineStalledError(stall.reason)
        cause = Failed(str(error))
        for request in engine.outputs.open_requests:
            ids = engine.outputs.abort(request, cause)
            request.deliver(error)
            self._engines.send(engine, Finish(ids, cause))

    # -- deaths ------------------------------------------------------------------

    def take_death(self, death: EngineDied) -> None:
        """Ends the requests that neither move to other engines nor wait.

        The engine's process is replaced if that is allowed; else it is dead.
        """
        engine, extension = self._engines[death.engine_index], self._extension
        if extension is None:
            self._mark_dead(engine, death, set())
            return
        leaving = extension.leaving(engine, death)
        self._mark_dead(engine, death, {i for each in leaving for i in each.open_ids})
        extension.move(engine, leaving)

    def _mark_dead(
        self, engine: EngineState, death: EngineDied, keep: set[int]
    ) -> None:
        """Ends requests that are neither in `keep` nor wait for the engine."""
        extension, processes = self._extension, self._processes
        if extension is not None and extension.returns(death):
            # None of them waits for that: nobody knows when it will be.
            self._await_replacement(engine, death, keep)
            extension.ended(death, is_replaced=True)
            return
        may_return = processes is not None and not engine.is_surplus
        delay = engine.restarts.consume() if may_return else None
        if not (death.is_replaced or delay is not None):
            self.fail(engine, death.reason, death.kind, keep)
            return
        if extension is not None:
            extension.ended(death, is_replaced=True)
        if engine.death is None:
            keep |= {i for each in engine.outputs.untouched for i in each.open_ids}
        self._await_replacement(engine, death, keep)
        if processes is None or delay is None:
            return
        _log.error(
            "engine %d has ended: %s; its last log lines are before this one, and it "
            "is replaced in %g s",
            engine.index,
            death.reason,
            delay,
        )
        processes.replace(engine.index, delay)

    def _await_replacement(
        self, engine: EngineState, death: EngineDied, keep: Collection[int]
    ) -> None:
        if engine.death is None:
            error = EngineRestartingError(death.reason)
            self._report_failure(engine, death.reason, error, keep, is_final=False)
        engine.await_replacement(death)

    def fail(
        self,
        engine: EngineState,
        reason: str,
        kind: DeathKind = DeathKind.FAILED,
        keep: Collection[int] = (),
    ) -> None:
        """Ends the requests of an engine that is dead for good, but those in `keep`."""
        if engine.failure is None:
            error, was_up = EngineDeadError(reason), engine.death is None
            self._report_failure(engine, reason, error, keep, was_up=was_up)
            engine.mark_ended(reason)
            if self._extension is not None:
                death = EngineDied(engine.index, reason, kind)
                self._extension.ended(death, is_replaced=False)
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
        self._end_all(engine, cause, "drain", error, was_up=engine.death is None)
        engine.mark_ended("it was closed")
        self._observers.stopped(engine.index, "closed")

    def _report_failure(
        self,
        engine: EngineState,
        reason: str,
        error: EngineDeadError,
        keep: Collection[int] = (),
        *,
        was_up: bool = True,
        is_final: bool = True,
    ) -> None:
        self._calls.fail(engine.index, error)
        events = self._end_all(
            engine, Failed(reason), "failed", error, keep, was_up=was_up
        )
        errors = sum(event.reason is FinishReason.ERROR for event in events)
        self._observers.failed(engine.index, reason, errors, is_final=is_final)

    def _end_all(
        self,
        engine: EngineState,
        cause: Aborted | Failed,
        state: str,
        error: EngineDeadError,
        keep: Collection[int] = (),
        *,
        was_up: bool,
    ) -> Sequence[Finished]:
        # Requests on their way when the engine ended count as received; those that
        # wait for its replacement have been counted when it ended.
        received = engine.stats.totals.received
        unheard = engine.accounting.num_unheard if was_up else 0
        is_alone = self._engines.client.owns_engines
        rest = engine.stats.at_rest()
        totals = msgspec.structs.replace(
            rest.totals, received=received + unheard * is_alone
        )
        engine.stats = msgspec.structs.replace(rest, totals=totals)
        iteration, events = engine.outputs.end_all(cause, error, keep)
        if not is_alone:
            iteration = replace(iteration, received_correction=unheard)
        facts = {each.request_id: each.facts for each in iteration.finished}
        output = StepOutput(
            engine.index,
            engine.stats_at,
            state,
            engine.stats,
            events=StepEvents(finished=events),
        )
        self._observers.observe(output, iteration, facts)
        return events

    # -- replacement -------------------------------------------------------------

    def take_replacement(self, replaced: EngineReplaced) -> None:
        """Sends the new process the requests that begin again."""
        engine = self._engines[replaced.engine_index]
        if engine.failure is not None or engine.death is None:
            return
        death = engine.death
        self._end_abandoned(engine, death)
        completions = engine.outputs.restart()
        engine.replaced(replaced.info)
        self._observers.started(
            engine.facts,
            engine.clock,
            restart_cause=death.kind.value,
            resubmitted=len(completions),
        )
        _log.warning(
            "engine %d has been replaced; requests that begin again: %d",
            engine.index,
            len(completions),
        )
        for completion in completions:
            resubmit(self._engines, engine, completion)

    def _end_abandoned(self, engine: EngineState, death: EngineDied) -> None:
        """Ends requests whose clients left while there was no process."""
        keep = engine.outputs.open_ids
        if engine.accounting.num_in_flight == len(keep):
            return
        error = EngineRestartingError(death.reason)
        cause = Failed(death.reason)
        self._end_all(engine, cause, "failed", error, keep, was_up=False)


def resubmit(
    engines: EngineSet, engine: EngineState, completion: CompletionState
) -> None:
    """Sends a completion that begins again, with the time that it has left.

    Args:
        engines: All engines.
        engine: The one that gets it.
        completion: The completion; its accounting is the engine's already.
    """
    request, account = completion.request, completion.account
    again = msgspec.structs.replace(
        request.inner,
        request_id=account.request_id,
        completion_index=account.index,
        eos_token_ids=engine.facts.model.eos_token_ids,
        timeout_seconds=seconds_until(request.ends_at, engines.clock.now()),
        is_moved=account.is_moved,
    )
    engine.vitals.unheard.append(account.group.arrived_at)
    engines.send(engine, Add(again))
