"""The suite for engines finds what an engine tells wrongly."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.config import EngineConfig, ExecutorConfig
from hookline.frozen import EMPTY
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    RequestsFinished,
    RequestsQueued,
    StateChanged,
    StepFinished,
    TokensGenerated,
)
from hookline.tells import Tells
from hookline_metrics.engine_tells import SIMULATED
from hookline_testing.engine_contract import (
    Case,
    ClientEngine,
    ContractError,
    Outcome,
    Scene,
    Session,
    Trial,
    assert_contract,
)
from hookline_testing.plugin_site import PluginSite

Calls = list[tuple[str, Any]]
CONFIG = EngineConfig(executor=ExecutorConfig(name="simulated"))
LIES = """
import msgspec

from hookline.events import StepOutput
from hookline.transport.native import connect_in_process


class Liar:
    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def receive(self, timeout_seconds):
        found = self._client.receive(timeout_seconds)
        if not isinstance(found, StepOutput):
            return found
        totals = msgspec.structs.replace(found.stats.totals, received=%s)
        stats = msgspec.structs.replace(found.stats, totals=totals)
        return msgspec.structs.replace(found, stats=stats)


def connect(context):
    return Liar(connect_in_process(context))
"""


@pytest.fixture(scope="module")
def truth() -> Trial:
    """What a simulated engine tells, each scene of which is played once."""
    return Trial(ClientEngine("simulated", CONFIG))


class Told:
    """An engine of which something else was told."""

    name, tells = "simulated", SIMULATED
    cannot: Mapping[Case, str] = EMPTY

    def __init__(self, truth: Trial, spoil: Callable[[Calls], object]) -> None:
        self._truth, self._spoil = truth, spoil

    def play(self, scene: Scene) -> Session:
        session = self._truth.session(scene)
        calls = [*session.calls]
        self._spoil(calls)
        return Session(calls, session.ends)


def where(calls: Calls, kind: type, which: int = 0) -> int:
    return [at for at, (_, each) in enumerate(calls) if isinstance(each, kind)][which]


def lose(kind: type, which: int = 0) -> Callable[[Calls], object]:
    return lambda calls: calls.pop(where(calls, kind, which))


def repeat(kind: type, which: int = 0) -> Callable[[Calls], object]:
    def spoil(calls: Calls) -> None:
        at = where(calls, kind, which)
        calls.insert(at, calls[at])

    return spoil


def change(
    kind: type, make: Callable[[Any], dict[str, object]], which: int = 0
) -> Callable[[Calls], object]:
    def spoil(calls: Calls) -> None:
        at = where(calls, kind, which)
        hook, told = calls[at]
        calls[at] = hook, dataclasses.replace(told, **make(told))

    return spoil


def first_request(**fields: object) -> Callable[[Any], dict[str, object]]:
    return lambda told: {
        "requests": tuple(dataclasses.replace(each, **fields) for each in told.requests)
    }


def first_event(**fields: object) -> Callable[[Any], dict[str, object]]:
    return lambda told: {"events": tuple(_with(each, fields) for each in told.events)}


def state(**fields: object) -> Callable[[Any], dict[str, object]]:
    return lambda told: {"scheduler": _with(told.scheduler, fields)}


def record(**fields: object) -> Callable[[Any], dict[str, object]]:
    return lambda told: {"record": _with(told.record, fields)}


def facts(tells: Sequence[Tells]) -> Callable[[Any], dict[str, object]]:
    return lambda told: {"facts": dataclasses.replace(told.facts, tells=tuple(tells))}


def _with(struct: Any, fields: dict[str, object]) -> object:
    made: object = msgspec.structs.replace(struct, **fields)
    return made


FEWER = [each for each in Tells if each is not Tells.COST]


@pytest.mark.parametrize(
    ("case", "spoil"),
    [
        pytest.param(Case.LENGTH, lose(RequestsFinished), id="a lost end"),
        pytest.param(
            Case.LENGTH,
            change(RequestsFinished, first_request(output_tokens=4)),
            id="fewer tokens",
        ),
        pytest.param(Case.STOP, repeat(RequestsFinished, 1), id="an end told twice"),
        pytest.param(Case.ORDER, repeat(RequestsFinished), id="an end twice"),
        pytest.param(Case.ORDER, repeat(RequestsQueued), id="queued twice"),
        pytest.param(Case.ORDER, lose(RequestsQueued), id="never queued"),
        pytest.param(Case.ORDER, lose(EngineStarted), id="no start"),
        pytest.param(
            Case.ORDER, change(TokensGenerated, first_event(at=1)), id="time goes back"
        ),
        pytest.param(
            Case.INTERVALS,
            change(RequestsFinished, first_request(ttft_seconds=9e9)),
            id="a late first token",
        ),
        pytest.param(
            Case.INTERVALS,
            change(RequestsFinished, first_request(tpot_seconds=9.0)),
            id="tokens too slow",
        ),
        pytest.param(
            Case.INTERVALS,
            change(RequestsFinished, first_request(queue_seconds=-1.0)),
            id="a negative time",
        ),
        pytest.param(Case.CONSERVATION, lose(StepFinished, 4), id="a lost step"),
        pytest.param(
            Case.CONSERVATION,
            change(StateChanged, state(running=1), -1),
            id="one runs on",
        ),
        pytest.param(
            Case.IDLE, change(StateChanged, state(waiting=1), -1), id="one waits on"
        ),
        pytest.param(Case.STEPS, repeat(StepFinished), id="a step twice"),
        pytest.param(
            Case.STEPS,
            change(StepFinished, record(ended_at=0)),
            id="a step without end",
        ),
        pytest.param(
            Case.BLOCKS,
            change(StepFinished, state(kv_blocks_used=10**9)),
            id="too many blocks",
        ),
        pytest.param(
            Case.DECLARATION,
            change(EngineStarted, facts([*FEWER, Tells.COST])),
            id="more than declared",
        ),
        pytest.param(
            Case.DECLARATION,
            change(EngineStarted, facts([Tells.LOAD])),
            id="less than declared",
        ),
        pytest.param(Case.SEVERAL, lose(EngineStarted, -1), id="one engine only"),
        pytest.param(
            Case.SEVERAL,
            change(RequestsFinished, first_request(request_id=99)),
            id="an end of another",
        ),
    ],
)
def test_what_is_told_wrongly_is_found(
    truth: Trial, case: Case, spoil: Callable[[Calls], object]
) -> None:
    """Each case passes with the truth, and fails with what is not so."""
    assert truth.check(case) is Outcome.PASSED

    with pytest.raises(AssertionError):
        Trial(Told(truth, spoil)).check(case)


def test_an_end_that_nobody_tells_is_found(truth: Trial) -> None:
    """An engine that dies has to be told of, as failed or as stopped."""

    def spoil(calls: Calls) -> None:
        kinds = (EngineFailed, EngineStopped)
        calls[:] = [each for each in calls if not isinstance(each[1], kinds)]

    with pytest.raises(AssertionError, match="end is not told"):
        Trial(Told(truth, spoil)).check(Case.DEATH)


def test_events_that_are_not_declared_are_found(truth: Trial) -> None:
    """Whoever says that it tells no events tells none."""
    others = [each for each in FEWER if each is not Tells.EVENTS]
    spoil = change(EngineStarted, facts(others))

    with pytest.raises(AssertionError, match="told, but not declared"):
        Trial(Told(truth, spoil)).check(Case.ORDER)


@pytest.mark.parametrize("received", ["found.stats.totals.received", "0"])
def test_an_engine_of_others_is_tried_by_one_call(
    tmp_path: Path, received: str
) -> None:
    """It passes if it tells the truth; else the case and the fault are named."""
    with PluginSite(tmp_path) as site:
        site.install(
            "mine", LIES % received, group="hookline.engines", attribute="connect"
        )
        config = dataclasses.replace(CONFIG, engine="mine")
        engine = ClientEngine("mine", config, tells=SIMULATED)
        if received != "0":
            assert set(assert_contract(engine).values()) == {Outcome.PASSED}
            return
        with pytest.raises(ContractError) as error:
            assert_contract(engine)

    assert Case.CONSERVATION in error.value.faults
    assert "'mine' does not conform" in str(error.value)
