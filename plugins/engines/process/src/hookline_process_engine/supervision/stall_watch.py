"""Tells stalled engines, independent of them and of the event loop."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from hookline.clock import NANOSECONDS, Clock
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_vitals import EngineVitals, Stall
from hookline_metrics.front_end_parts import EngineHealth
from hookline_process_engine.capabilities import EngineProcesses
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_process_engine.supervision.engine_watch import EngineWatch
from hookline_processes.inspector import ProcessInspector

_log = logging.getLogger(__name__)

_REPORT_SECONDS = 1.0
"""Time between two reports of a stall that goes on."""


@dataclass(slots=True)
class _Watched:
    """One engine under watch.

    Attributes:
        stall: The stall in progress; None while the engine works.
        unreported: Time since the last report of the stall, in seconds.
        awaits_stacks: Whether the engine was asked for its stacks.
    """

    watch: EngineWatch
    inspector: ProcessInspector | None
    stall: Stall | None = None
    unreported: float = 0.0
    awaits_stacks: bool = False


class StallWatch:
    """Judges engines by what they send, whenever it looks; for one thread.

    Args:
        engines: The engines.
        report: Called in this thread with the health of a stalled engine, about once
            per second.
        config: When an engine is stalled.
        heartbeat_seconds: Maximum time between two states of an engine.
        clock: The front end's clock.
        changed: Called in this thread with an engine's index and its stall, whenever
            the stall begins, becomes final or ends (None).
    """

    def __init__(
        self,
        engines: EngineSet,
        report: Callable[[EngineHealth], None],
        config: SupervisionConfig,
        heartbeat_seconds: float,
        clock: Clock,
        *,
        changed: Callable[[int, Stall | None], None],
    ) -> None:
        self._engines = engines
        self._report_health = report
        self._config = config
        self._heartbeat = heartbeat_seconds
        self._clock = clock
        self._changed = changed
        self._watched: dict[int, _Watched] = {}

    def look(self, seconds: float) -> None:
        """Looks at all engines, so long after the last look."""
        for engine in self._engines:
            if not engine.vitals.is_over:
                self._look(engine.index, self._known(engine), seconds)

    def _known(self, engine: EngineState) -> _Watched:
        index, vitals = engine.index, engine.vitals
        known = self._watched.get(index)
        if known is None or known.watch.vitals is not vitals:  # a replaced process
            watch = EngineWatch(vitals, self._config, self._heartbeat)
            known = _Watched(watch, self._inspector(index))
            self._watched[index] = known
        return known

    def _inspector(self, index: int) -> ProcessInspector | None:
        processes = self._engines.client.capability(EngineProcesses)
        return None if processes is None else processes.inspector(index)

    def _look(self, index: int, each: _Watched, seconds: float) -> None:
        if each.awaits_stacks and each.inspector is not None:
            each.awaits_stacks = False
            _log_stacks(index, each.inspector)
        inspector, before = each.inspector, each.stall
        stopped = ""
        if inspector is not None and each.watch.is_quiet:
            stopped = inspector.stopped_part
        each.stall = each.watch.look(seconds, stopped=stopped)
        each.unreported += seconds
        if each.stall is None:
            if before is not None:
                _log_recovery(index, before.seconds)
                self._changed(index, None)
                self._report(index, each)
            return
        if before is None:
            _log_stall(index, each.stall, each.watch.vitals, inspector)
            each.awaits_stacks = inspector is not None
        if before is None or before.is_final is not each.stall.is_final:
            self._changed(index, each.stall)
        if before is None or each.unreported >= _REPORT_SECONDS:
            self._report(index, each)

    def _report(self, index: int, each: _Watched) -> None:
        each.unreported = 0.0
        vitals, stall = each.watch.vitals, each.stall
        age = _oldest_age(vitals, self._clock.now())
        self._report_health(
            EngineHealth(
                engine_index=index,
                stalled_seconds=None if stall is None else stall.seconds,
                reason="" if stall is None else stall.reason,
                unheard=len(vitals.unheard),
                oldest_unheard_seconds=age / NANOSECONDS,
            )
        )


def _oldest_age(vitals: EngineVitals, now: int) -> int:
    """Returns the age of the oldest request without a confirmation, in ns."""
    try:
        return now - vitals.unheard[0]
    except IndexError:  # confirmed in another thread
        return 0


def _log_stall(
    engine_index: int,
    stall: Stall,
    vitals: EngineVitals,
    inspector: ProcessInspector | None,
) -> None:
    """Logs the stall, the process's state and the last messages, and asks for stacks.

    Messages are named by their kinds and ids: no prompt gets into the log.
    """
    stats = vitals.stats
    _log.error(
        "engine %d is stalled: %s for %.1f s; %d requests run, %d wait, %d are on "
        "their way; %s\nlast commands: %s\nlast outputs: %s",
        engine_index,
        stall.reason,
        stall.seconds,
        stats.running,
        stats.waiting,
        len(vitals.unheard),
        "it has no process of its own" if inspector is None else inspector.description,
        "; ".join(
            f"{at / NANOSECONDS:.3f} s {kind} {ids}"
            for at, kind, ids in list(vitals.commands)
        ),
        "; ".join(
            f"{at / NANOSECONDS:.3f} s {cause}, {running} running, {waiting} waiting"
            for at, cause, running, waiting in list(vitals.outputs)
        ),
    )
    if inspector is not None:
        inspector.ask_for_stacks()


def _log_stacks(engine_index: int, inspector: ProcessInspector) -> None:
    """Logs the stacks that a stalled engine has written since `_log_stall`."""
    if stacks := inspector.take_stacks():
        _log.error("threads of engine %d:\n%s", engine_index, stacks)
    elif inspector.is_stopped:
        _log.error("engine %d writes no stacks: it is stopped", engine_index)
    else:
        _log.error("engine %d has written no stacks", engine_index)


def _log_recovery(engine_index: int, seconds: float) -> None:
    """Logs that an engine works again, and for how long it had not."""
    _log.warning("engine %d works again after %.1f s", engine_index, seconds)
