"""What becomes of requests when their engine dies, stalls or is replaced."""

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec

from hookline.engine.commands import Add, Finish
from hookline.exceptions import EngineRestartingError, EngineStalledError
from hookline.finish_cause import Failed
from hookline.frontend.client_request import (
    ClientRequest,
    CompletionState,
    seconds_until,
)
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_vitals import Stall
from hookline.frontend.extension import FrontEndParts
from hookline.frontend.observing import Observing
from hookline.frontend.request_ending import RequestEnding
from hookline.transport.engine_client import DeathKind, EngineDied
from hookline_process_engine.capabilities import EngineProcesses, EngineReplaced
from hookline_process_engine.supervision.config import StallPolicy, SupervisionConfig
from hookline_processes.restarts import RestartBudget

_OWN_FAULTS = (DeathKind.FAILED, DeathKind.CRASHED, DeathKind.STALLED)
"""Ends that a request may have caused, and may cause again at another engine."""

Sent = tuple[EngineState, CompletionState]
"""A completion that begins again, and the engine that gets it."""

_log = logging.getLogger(__name__)


class Neighbours(Protocol):
    """Other engines, and other clients of the engines, of one that dies or stalls."""

    def leaving(self, engine: EngineState) -> Collection[ClientRequest]:
        """Returns the requests that will move from an engine that has just ended."""
        ...

    def move(self, source: EngineState, requests: Collection[ClientRequest]) -> None:
        """Sends requests of an engine that is marked as ended to other engines."""
        ...

    def gathered(self) -> Collection[Sent]:
        """Assigns requests that wait for engines which have ended to those that work.

        The caller sends them.
        """
        ...

    def returns(self, death: EngineDied) -> bool:
        """Whether an engine that has ended comes back by itself, whenever it may be."""
        ...

    def ended(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Takes note that an engine has ended, and what comes of it."""
        ...

    def judged(self, engine_index: int, stall: Stall | None) -> None:
        """Takes note of a verdict on an engine; None if it works again."""
        ...


class Supervisor(RequestEnding):
    """Ends requests of engines, or begins them again; for the front end's thread.

    That of the engines' owner also kills and replaces their processes.
    """

    def __init__(
        self,
        parts: FrontEndParts,
        config: SupervisionConfig,
        observers: Observing,
        neighbours: Neighbours | None = None,
    ) -> None:
        """Supervises the engines of a front end.

        Args:
            parts: What it consists of.
            config: What becomes of engines, and of their requests.
            observers: The loggers, or what stands before them.
            neighbours: Hear of deaths and stalls, and may take requests.
        """
        super().__init__(parts.engines, parts.calls, observers)
        self._neighbours = neighbours
        self._config = config
        self._now = parts.clock.now
        self._budgets: WeakKeyDictionary[EngineState, RestartBudget] = (
            WeakKeyDictionary()
        )

    @property
    def _processes(self) -> EngineProcesses | None:
        return self._engines.client.capability(EngineProcesses)

    def _restart_of(self, engine: EngineState) -> float | None:
        """Returns the pause before the engine's next process; None without one."""
        budget = self._budgets.get(engine)
        if budget is None:
            budget = RestartBudget(self._config.engine_restart, self._now)
            self._budgets[engine] = budget
        return budget.consume()

    # -- stalls ------------------------------------------------------------------

    def take_stall(self, engine_index: int, stall: Stall | None) -> None:
        """Takes the watchdog's verdict on an engine; None if it works again."""
        engine = self._engines[engine_index]
        if engine.failure is not None or engine.death is not None:
            return
        policy = self._config.on_engine_stall
        waits = policy is StallPolicy.WAIT
        engine.stall = replace(stall, is_final=False) if stall and waits else stall
        if self._neighbours is not None:
            self._neighbours.judged(engine_index, stall)
        if stall is None or waits or not stall.is_final:
            return
        processes = self._processes
        if engine.is_surplus and processes is not None:
            processes.kill(engine_index, f"it stalled: {stall.reason}")
        elif policy is not StallPolicy.RESTART:
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
        engine, neighbours = self._engines[death.engine_index], self._neighbours
        if death.kind in _OWN_FAULTS:
            for each in engine.outputs.open_requests:
                each.is_suspect = True
        if neighbours is None:
            self._mark_dead(engine, death, set())
            return
        leaving = neighbours.leaving(engine)
        self._mark_dead(engine, death, {i for each in leaving for i in each.open_ids})
        neighbours.move(engine, leaving)

    def _mark_dead(
        self, engine: EngineState, death: EngineDied, keep: set[int]
    ) -> None:
        """Ends requests that are neither in `keep` nor wait for the engine."""
        neighbours, processes = self._neighbours, self._processes
        if neighbours is not None and neighbours.returns(death):
            # None of them waits for that: nobody knows when it will be.
            self._await_replacement(engine, death, keep)
            neighbours.ended(death, is_replaced=True)
            return
        may_return = processes is not None and not engine.is_surplus
        delay = self._restart_of(engine) if may_return else None
        if not (death.is_replaced or delay is not None):
            self.fail(engine, death.reason, keep, kind=death.kind)
            return
        if neighbours is not None:
            neighbours.ended(death, is_replaced=True)
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
            self.report_failure(engine, death.reason, error, keep, is_final=False)
        engine.await_replacement(death)

    def fail(
        self,
        engine: EngineState,
        reason: str,
        keep: Collection[int] = (),
        *,
        kind: DeathKind = DeathKind.FAILED,
    ) -> None:
        """Does what `RequestEnding` does, and tells the neighbours."""
        was_known = engine.failure is not None
        super().fail(engine, reason, keep)
        if not was_known and self._neighbours is not None:
            death = EngineDied(engine.index, reason, kind)
            self._neighbours.ended(death, is_replaced=False)

    # -- replacement -------------------------------------------------------------

    def take_replacement(self, replaced: EngineReplaced) -> None:
        """Sends the new process the requests that begin again, its own and others'.

        Those that wait for other engines need not wait any longer.
        """
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
        sent = [(engine, each) for each in completions]
        if self._neighbours is not None:
            sent += self._neighbours.gathered()
        resubmit_all(self._engines, sent)

    def _end_abandoned(self, engine: EngineState, death: EngineDied) -> None:
        """Ends requests whose clients left while there was no process."""
        keep = engine.outputs.open_ids
        if engine.accounting.num_in_flight == len(keep):
            return
        error = EngineRestartingError(death.reason)
        cause = Failed(death.reason)
        self.end_all(engine, cause, "failed", error, keep, was_up=False)


def resubmit_all(engines: EngineSet, sent: Collection[Sent]) -> None:
    """Sends completions that begin again, in the order in which they arrived."""
    for engine, completion in sorted(sent, key=_arrival):
        resubmit(engines, engine, completion)


def _arrival(sent: Sent) -> int:
    _, completion = sent
    return completion.account.group.arrived_at


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
    left: float | None = None
    if request.ends_at is not None:
        left = seconds_until(request.ends_at, engines.clock.now())
    again = msgspec.structs.replace(
        request.inner,
        request_id=account.request_id,
        completion_index=account.index,
        eos_token_ids=engine.facts.model.eos_token_ids,
        timeout_seconds=left,
        is_moved=True,
    )
    engine.vitals.unheard.append(account.group.arrived_at)
    engines.send(engine, Add(again))
