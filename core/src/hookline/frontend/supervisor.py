"""What becomes of requests when their engine dies, stalls or is replaced."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from hookline.config import StallPolicy
from hookline.core.commands import Finish
from hookline.events import Finished, StepOutput
from hookline.exceptions import (
    EngineDeadError,
    EngineRestartingError,
    EngineStalledError,
)
from hookline.finish_cause import Aborted, Failed
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_watch import Stall
from hookline.frontend.moving import Moving, resubmit
from hookline.frontend.observing import Observing
from hookline.frontend.placement import Placement
from hookline.request import FinishReason
from hookline.transport.engine_client import (
    DeathKind,
    EngineDied,
    EngineLeaving,
    EngineReplaced,
    EngineVerdict,
)

_log = logging.getLogger(__name__)


class Supervisor:
    """Ends, moves or begins again the requests of engines; for the front end's thread.

    That of the engines' owner also kills and replaces them, and tells other front ends.
    """

    def __init__(
        self,
        engines: EngineSet,
        placement: Placement,
        calls: PendingCalls,
        observers: Observing,
        stall_policy: StallPolicy,
    ) -> None:
        self._engines = engines
        self._calls = calls
        self._observers = observers
        self._moving = Moving(engines, placement, observers)
        self._stall_policy = stall_policy

    def take(
        self, news: EngineDied | EngineReplaced | EngineLeaving | EngineVerdict
    ) -> None:
        """Handles news of an engine's process from its owner."""
        match news:
            case EngineDied():
                self.take_death(news)
            case EngineReplaced():
                self.take_replacement(news)
            case EngineVerdict():
                self.take_verdict(news)
            case EngineLeaving(index):
                self._engines[index].is_leaving = True

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
        client = self._engines.client
        if client.processes is not None:
            client.processes.tell_verdict(_verdict(engine_index, stall))
        if stall is None or not self.gives_up(stall):
            return
        if engine.is_surplus and client.processes is not None:
            client.processes.kill(engine_index, f"it stalled: {stall.reason}")
        elif self._stall_policy is not StallPolicy.RESTART:
            self._give_up_requests(engine, stall)
        elif client.processes is not None:
            reason = f"its process was killed, because {stall.reason}"
            client.processes.kill(engine_index, reason)
        elif client.owns_engines:  # in this process
            self._give_up_requests(engine, stall)

    def take_verdict(self, verdict: EngineVerdict) -> None:
        """Takes the owner's verdict on an engine."""
        stall = None
        if verdict.reason is not None:
            stall = Stall(verdict.reason, verdict.seconds, verdict.is_final)
        self.take_stall(verdict.engine_index, stall)

    def _give_up_requests(self, engine: EngineState, stall: Stall) -> None:
        """Ends all open requests for their clients; the engine does so if it wakes."""
        error = EngineStalledError(stall.reason)
        cause = Failed(str(error))
        for request in engine.outputs.open_requests:
            ids = engine.outputs.abort(request, cause)
            request.deliver_error(error)
            self._engines.send(engine, Finish(ids, cause))

    # -- deaths ------------------------------------------------------------------

    def take_death(self, death: EngineDied) -> None:
        """Moves requests to other engines; ends those that neither move nor wait.

        The engine's process is replaced if that is allowed; else it is dead.
        """
        engine = self._engines[death.engine_index]
        leaving = self._moving.leaving(engine, death)
        self._bury(engine, death, {i for each in leaving for i in each.open_ids})
        self._moving.move(engine, leaving)

    def _bury(self, engine: EngineState, death: EngineDied, keep: set[int]) -> None:
        """Ends requests that are neither in `keep` nor wait for the engine."""
        processes = self._engines.client.processes
        is_ours = processes is not None and processes.returns(engine.index)
        if is_ours or death.returns:
            self._await_return(engine, death, keep)
            return
        may_return = processes is not None and not engine.is_surplus
        delay = engine.restarts.take() if may_return else None
        is_replaced = death.is_replaced or delay is not None
        if not is_replaced:
            self.fail(engine, death.reason, death.kind, keep)
            return
        if processes is not None:
            processes.tell_death(death, is_replaced=True)
        if engine.death is None:
            keep |= {i for each in engine.outputs.untouched for i in each.open_ids}
            error = EngineRestartingError(death.reason)
            self._report_failure(engine, death.reason, error, keep, is_final=False)
        engine.await_replacement(death)
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

    def _await_return(
        self, engine: EngineState, death: EngineDied, keep: Collection[int]
    ) -> None:
        """Ends the requests of an engine on another machine, which may come back.

        None of them waits for that: nobody knows when it will be.
        """
        if engine.death is None:
            error = EngineRestartingError(death.reason)
            self._report_failure(engine, death.reason, error, keep, is_final=False)
        engine.await_replacement(death)
        if (processes := self._engines.client.processes) is None:
            return
        processes.tell_death(death, is_replaced=True)
        _log.error(
            "engine %d has ended: %s; it serves again once its machine starts it again",
            engine.index,
            death.reason,
        )

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
            engine.end(reason)
            client = self._engines.client
            if client.processes is not None:
                death = EngineDied(engine.index, reason, kind)
                client.processes.tell_death(death, is_replaced=False)
            if client.owns_engines:
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
        engine.end("it was closed")
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
        received = engine.stats.received
        unheard = engine.accounting.num_unheard if was_up else 0
        is_alone = self._engines.client.owns_engines
        rest = engine.stats.at_rest()
        engine.stats = msgspec.structs.replace(
            rest, received=received + unheard * is_alone
        )
        iteration, events = engine.outputs.end_all(cause, error, keep)
        if not is_alone:
            iteration = replace(iteration, received_correction=unheard)
        facts = {each.request_id: each.facts for each in iteration.finished}
        output = StepOutput(
            engine.index, engine.stats_at, state, engine.stats, finished=events
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


def _verdict(engine_index: int, stall: Stall | None) -> EngineVerdict:
    if stall is None:
        return EngineVerdict(engine_index, None, 0.0, is_final=False)
    return EngineVerdict(engine_index, stall.reason, stall.seconds, stall.is_final)
