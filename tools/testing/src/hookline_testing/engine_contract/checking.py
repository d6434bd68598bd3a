"""Checks an engine case by case."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from hookline.payloads import EngineFailed, EngineStarted, EngineStopped
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline.tells import Tells
from hookline_registry import Failure, isolate
from hookline_testing.engine_contract import laws
from hookline_testing.engine_contract.scenes import (
    Case,
    EngineUnderTest,
    Scene,
    Session,
)


class Outcome(StrEnum):
    """What came of a case."""

    PASSED = "passed"
    NOT_TOLD = "not told"
    NOT_APPLICABLE = "n.a."


class ContractError(AssertionError):
    """An engine tells what is not so.

    Attributes:
        faults: A sentence for each case.
    """

    def __init__(self, engine: str, faults: Mapping[Case, str]) -> None:
        lines = "\n".join(f"- {case}: {fault}" for case, fault in faults.items())
        super().__init__(f"the engine {engine!r} does not conform:\n{lines}")
        self.faults = faults


class Trial:
    """One engine in the suite; each scene is played once, when it is needed.

    Attributes:
        engine: The engine.
    """

    def __init__(self, engine: EngineUnderTest) -> None:
        self.engine = engine
        self._played: dict[Scene, Session] = {}

    def session(self, scene: Scene) -> Session:
        """Returns what was told of a scene."""
        if scene not in self._played:
            self._played[scene] = self.engine.play(scene)
        return self._played[scene]

    def check(self, case: Case) -> Outcome:
        """Checks a case.

        Raises:
            AssertionError: What was told is not so.
        """
        if case in self.engine.cannot:
            return Outcome.NOT_APPLICABLE
        check = _OF_CASES.get(case)
        if check is not None:
            return check(self)
        return _check_end(self.session(Scene.REQUESTS), case)


def assert_contract(engine: EngineUnderTest) -> Mapping[Case, Outcome]:
    """Checks all cases of an engine; returns what came of each.

    Raises:
        ContractError: What it tells is not so.
    """
    trial = Trial(engine)
    outcomes: dict[Case, Outcome] = {}
    faults: dict[Case, str] = {}
    for case in Case:
        outcome = isolate(trial.check, case)
        if isinstance(outcome, Failure):
            faults[case] = outcome.summary
        else:
            outcomes[case] = outcome
    if faults:
        raise ContractError(engine.name, faults)
    return outcomes


def _end_of(session: Session, client_id: str) -> FinishedRequest:
    """Returns the one end of a request that was told; vLLM's ids have more parts.

    Not every engine knows the id of what it has refused.
    """
    found = [
        each
        for each in session.finished
        if client_id in each.facts.client_id
        or (client_id == Case.REJECTED and each.reason is FinishReason.REJECTED)
    ]
    assert len(found) == 1, f"{len(found)} ends of {client_id} are told"
    return found[0]


def _check_end(session: Session, case: Case) -> Outcome:
    """The end that is told is the one that the client has seen."""
    if Tells.REQUESTS not in session.tells:
        return Outcome.NOT_TOLD
    seen, told = session.ends[case], _end_of(session, case)
    assert told.reason is seen.reason, f"{told.reason} is told, and was {seen.reason}"
    if told.has_tokens and seen.output_tokens is not None:
        given = seen.output_tokens
        assert told.output_tokens == given, f"{told.output_tokens} tokens of {given}"
    if case is Case.ABORT_DECODE:
        assert told.ttft_seconds is not None, "a first token is not told"
    elif case in (Case.ABORT_WAITING, Case.ABORT_PREFILL):
        assert told.ttft_seconds is None, "a first token is told, and was none"
        if Tells.EVENTS in session.tells:
            waited = told.queue_seconds is None
            assert waited is (case is Case.ABORT_WAITING), "its phase"
    return Outcome.PASSED


def _check_death(trial: Trial) -> Outcome:
    """Open requests end with an error, once, and the engine's end is told."""
    session = trial.session(Scene.DEATH)
    reasons = [each.reason for each in session.payloads(EngineFailed)]
    reasons += [each.reason for each in session.payloads(EngineStopped)]
    assert all(reasons), "the end of an engine has a reason"
    assert reasons, "the engine's end is not told"
    if Tells.REQUESTS not in session.tells:
        return Outcome.NOT_TOLD
    assert session.ends[Case.DEATH].reason is FinishReason.ERROR
    assert _end_of(session, Case.DEATH).reason is FinishReason.ERROR
    laws.check_order(session)
    return Outcome.PASSED


def _check_idle(trial: Trial) -> Outcome:
    """A state after the last end says that nothing runs or waits."""
    session = trial.session(Scene.REQUESTS)
    if Tells.LOAD not in session.tells:
        return Outcome.NOT_TOLD
    state = session.reports(0)[-1].scheduler
    assert (state.running, state.waiting, sum(state.held.values())) == (0, 0, 0)
    return Outcome.PASSED


def _check_several(trial: Trial) -> Outcome:
    """Each engine has facts, states and requests of its own."""
    session = trial.session(Scene.SEVERAL)
    started = {each.facts.engine_index for each in session.payloads(EngineStarted)}
    assert started == {0, 1}, f"engines {started} have started"
    if Tells.REQUESTS not in session.tells:
        return Outcome.NOT_TOLD
    for client_id, end in session.ends.items():
        told = [
            report.engine_index
            for engine in started
            for report in session.reports(engine)
            for each in report.iteration.finished
            if client_id in each.facts.client_id
        ]
        assert told == [end.engine], f"{client_id} of {end.engine} is told of {told}"
    laws.check_order(session)
    laws.check_conservation(session)
    return Outcome.PASSED


def _check_order(trial: Trial) -> Outcome:
    session = trial.session(Scene.REQUESTS)
    laws.check_order(session)
    if Tells.EVENTS not in session.tells:
        laws.check_no_events(session)
        return Outcome.NOT_TOLD
    laws.check_events_told(session)
    return Outcome.PASSED


def _check_intervals(trial: Trial) -> Outcome:
    session = trial.session(Scene.REQUESTS)
    if Tells.REQUESTS not in session.tells:
        return Outcome.NOT_TOLD
    laws.check_intervals(session)
    return Outcome.PASSED


def _check_conservation(trial: Trial) -> Outcome:
    laws.check_conservation(trial.session(Scene.REQUESTS))
    return Outcome.PASSED


def _check_steps(trial: Trial) -> Outcome:
    session = trial.session(Scene.REQUESTS)
    if Tells.STEPS not in session.tells:
        laws.check_no_steps(session)
        return Outcome.NOT_TOLD
    laws.check_steps(session)
    return Outcome.PASSED


def _check_blocks(trial: Trial) -> Outcome:
    session = trial.session(Scene.REQUESTS)
    laws.check_usage(session)
    if Tells.BLOCKS not in session.tells:
        return Outcome.NOT_TOLD
    laws.check_blocks(session)
    return Outcome.PASSED


def _check_declaration(trial: Trial) -> Outcome:
    declared = trial.engine.tells
    for started in trial.session(Scene.REQUESTS).payloads(EngineStarted):
        told = set(started.facts.tells)
        assert told >= set(declared.always), f"lacks {set(declared.always) - told}"
        assert not told & declared.never.keys(), f"has {told & declared.never.keys()}"
    return Outcome.PASSED


_OF_CASES: Mapping[Case, Callable[[Trial], Outcome]] = {
    Case.DEATH: _check_death,
    Case.IDLE: _check_idle,
    Case.SEVERAL: _check_several,
    Case.ORDER: _check_order,
    Case.INTERVALS: _check_intervals,
    Case.CONSERVATION: _check_conservation,
    Case.STEPS: _check_steps,
    Case.BLOCKS: _check_blocks,
    Case.DECLARATION: _check_declaration,
}
