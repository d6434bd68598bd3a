"""Taps: all that an engine decides and says, which they must leave as it is."""

from collections.abc import Sequence
from typing import cast

from hookline.engine.commands import Add, Command, EngineMessage
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.tap import Tap, TapContext
from hookline_registry import Failure, as_one
from hookline_testing.conformance.subject import Subject
from hookline_testing.conformance.watched import Watched
from hookline_testing.simulation import engine_request, simulated_core

_HEARTBEAT_SECONDS = 1000.0
_TURNS = 20


def check(subject: Subject) -> None:
    """Taps an engine that ends well, and one that fails."""
    core = simulated_core()
    made = subject.create(context=_context(core))
    if made is None or not subject.has(made, Tap):
        return
    tap = Watched(made)
    said = subject.call("the run of an engine", _run, core, tap, None)
    for name, error in tap.errors.items():
        subject.raised(name, error)
    plain = _run(simulated_core(), None, None)
    if not isinstance(said, Failure) and not subject.faults and said != plain:
        subject.fault("it changes what the engine says", tap.kind)
    other = simulated_core()
    if (made := subject.create(context=_context(other))) is not None:
        tap = Watched(made)
        subject.call("the end of an engine", _run, other, tap, RuntimeError("no KV"))
        for name, error in tap.errors.items():
            subject.raised(f"{name}, after an error of the engine,", error)


def _context(core: EngineCore) -> TapContext:
    return TapContext(config=core.config, facts=core.facts, clock=core.clock_pair())


def _run(
    core: EngineCore, tap: Watched | None, error: Exception | None
) -> Sequence[EngineMessage]:
    """Runs requests, two of them with the same prompt; returns what the engine said."""
    taps = as_one(Tap, [cast("Tap", tap)]) if tap is not None else None
    loop = EngineLoop(core, _HEARTBEAT_SECONDS, taps)
    waiting: list[Command] = [
        Add(engine_request(number, [number % 2 + 3] * 20, 4)) for number in (1, 2, 3)
    ]
    said: list[EngineMessage] = []
    for _ in range(_TURNS):
        said += loop.run_once(lambda _: waiting.pop(0) if waiting else None, 0.0)
    if error is not None and taps is not None:
        taps.close(error)
    else:
        loop.close()
    return said
