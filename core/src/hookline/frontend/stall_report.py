"""Writes what is known about a stalled engine to the log."""

import logging

from hookline.clock import NANOSECONDS
from hookline.frontend.engine_watch import Stall
from hookline.frontend.vitals import EngineVitals
from hookline_processes.inspector import ProcessInspector

_log = logging.getLogger(__name__)


def log_stall(
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


def log_stacks(engine_index: int, inspector: ProcessInspector) -> None:
    """Logs the stacks that a stalled engine has written since `log_stall`."""
    if stacks := inspector.take_stacks():
        _log.error("threads of engine %d:\n%s", engine_index, stacks)
    elif inspector.is_stopped:
        _log.error("engine %d writes no stacks: it is stopped", engine_index)
    else:
        _log.error("engine %d has written no stacks", engine_index)


def log_recovery(engine_index: int, seconds: float) -> None:
    """Logs that an engine works again, and for how long it had not."""
    _log.warning("engine %d works again after %.1f s", engine_index, seconds)
