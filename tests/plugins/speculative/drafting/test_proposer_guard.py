"""Whatever a proposer does, it is counted and contained, and no token changes."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig, ModelConfig
from hookline_drafting import DraftRequest, Drafts, Proposer, SpeculativeConfig
from hookline_drafting import guard as guards
from hookline_drafting.guard import ProposerGuard
from hookline_registry.failure_log import LOG_SECONDS
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Stopwatch
from hookline_testing.proposers import HostileProposer, ScriptedProposer

SpeculatingLLM = Callable[[EngineConfig, Proposer], AbstractContextManager[LLM]]
Act = Callable[[Sequence[DraftRequest]], object]

VOCAB = 320
OPTIONS = {
    "method": "scripted",
    "num_speculative_tokens": 3,
    "timeout_seconds": 5,
    "breaker_failures": 2,
}
CONFIG = SpeculativeConfig(
    method="hostile", num_speculative_tokens=3, timeout_seconds=5, breaker_failures=2
)


class Steps:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def requests(count: int = 1) -> list[DraftRequest]:
    return [
        DraftRequest(
            request_id=index,
            token_ids=np.array([1, 2, 3], np.int32),
            max_drafts=3,
            params=SamplingParams(),
        )
        for index in range(count)
    ]


def guarded(
    act: Act, clock: Callable[[], float] = time.monotonic, **changes: object
) -> ProposerGuard:
    config = replace(CONFIG, **changes)  # type: ignore[arg-type]
    return ProposerGuard(HostileProposer(act), config, vocab_size=VOCAB, clock=clock)


def raise_error(_: object) -> object:
    raise RuntimeError("no")


def leave(_: object) -> object:
    raise SystemExit(3)


def each(token_ids: object, probabilities: object = None) -> Act:
    """Returns the same drafts for each request."""

    def act(asked: Sequence[DraftRequest]) -> object:
        drafts = Drafts(token_ids=token_ids, probabilities=probabilities)  # type: ignore[arg-type]
        return [drafts for _ in asked]

    return act


def write(asked: Sequence[DraftRequest]) -> object:
    asked[0].token_ids[0] = 7
    return [Drafts(token_ids=()) for _ in asked]


UNIFORM = np.full((2, VOCAB), 1 / VOCAB, np.float32)
ONE_HOT = np.zeros((2, VOCAB), np.float32)
ONE_HOT[:, 9] = 1
NAN = UNIFORM * np.nan
NEGATIVE = UNIFORM.copy()
NEGATIVE[0, 0], NEGATIVE[0, 1] = -0.5, 0.5 + 2 / VOCAB

CAUSES: dict[str, tuple[Act, str]] = {
    "raises": (raise_error, "raised"),
    "exits": (leave, "raised"),
    "returns nothing": (lambda _: None, "malformed"),
    "returns a number": (lambda _: 7, "malformed"),
    "too few answers": (lambda _: [], "malformed"),
    "answers that are no drafts": (lambda asked: [[1] for _ in asked], "malformed"),
    "tokens that are no numbers": (each(["a"]), "malformed"),
    "tokens that are not whole": (each([1.5]), "malformed"),
    "tokens that are no list": (each(5), "malformed"),
    "tokens in rows": (each([[1, 2]]), "malformed"),
    "tokens beyond all bounds": (each([2**70]), "malformed"),
    "too many": (each([1, 2, 3, 4]), "too_many"),
    "negative": (each([-1]), "out_of_vocabulary"),
    "out of vocabulary": (each([1, VOCAB]), "out_of_vocabulary"),
    "probabilities of another shape": (each([1, 2, 3], UNIFORM), "malformed"),
    "probabilities that are no numbers": (each([1], "x"), "malformed"),
    "nan": (each([1, 2], NAN), "malformed"),
    "negative probabilities": (each([1, 2], NEGATIVE), "malformed"),
    "rows that do not sum to 1": (each([1, 2], UNIFORM * 2), "malformed"),
    "a draft that cannot be": (each([9, 8], ONE_HOT), "malformed"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_failure_is_counted_by_its_cause(name: str) -> None:
    """Drafts that cannot be verified are none, and one failure of the right cause."""
    act, cause = CAUSES[name]
    guard = guarded(act)

    [drafts] = guard.propose(requests())

    assert drafts.token_ids == []
    assert guard.take_failures() == {cause: 1}
    assert guard.take_failures() == {}
    guard.close()


@pytest.mark.parametrize("name", essential(CAUSES, *list(CAUSES)[:2]))
def test_output_is_unchanged(
    speculating_llm: SpeculatingLLM, llama: Oracle, name: str
) -> None:
    """An engine whose proposer fails at every step has the output without one."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        speculative={**OPTIONS, "breaker_failures": 100},
    )
    params = SamplingParams(temperature=0.0, max_tokens=6)

    with speculating_llm(config, HostileProposer(CAUSES[name][0])) as llm:
        [output] = llm.generate([[5, 6, 7]], params)
        assert_conserved(llm)
        failures = {
            sample.labels[-1]: float(cast("float", sample.value))
            for family in llm.get_metrics()
            if family.name == "hookline_spec_decode_proposer_failures"
            for sample in family.samples
        }

    assert output.outputs[0].token_ids == llama.greedy([5, 6, 7], 6)
    # Behind the fifth token there is room for one, which no draft is needed for.
    assert failures[CAUSES[name][1]] >= 2  # at the end fewer are wanted
    assert sum(failures.values()) == 4


def test_one_bad_answer_spoils_no_other() -> None:
    """The drafts of a request are used though its neighbour's are out of vocabulary."""
    answers = [Drafts(token_ids=[VOCAB]), Drafts(token_ids=np.array([4, 5]))]
    guard = guarded(lambda _: answers)

    first, second = guard.propose(requests(2))

    assert (first.token_ids, second.token_ids) == ([], [4, 5])
    assert guard.take_failures() == {"out_of_vocabulary": 1}
    guard.close()


def test_request_cannot_be_changed() -> None:
    """Tokens are a view that cannot be written to."""
    asked = requests()
    asked[0].token_ids.flags.writeable = False
    guard = guarded(write)

    guard.propose(asked)

    assert guard.take_failures() == {"raised": 1}
    assert asked[0].token_ids[0] == 1
    guard.close()


def test_breaker_leaves_the_proposer_alone_and_tries_again() -> None:
    """After two failures in a row it is not called; later one call tries again."""
    clock, calls = Steps(), []

    def act(asked: Sequence[DraftRequest]) -> object:
        calls.append(len(asked))
        if len(calls) < 4:
            raise RuntimeError("no")
        return [Drafts(token_ids=[1]) for _ in asked]

    guard = guarded(act, clock, breaker_seconds=10)

    for _ in range(5):
        guard.propose(requests())
    assert len(calls) == 2
    clock.now += 11
    guard.propose(requests())  # fails, so the breaker stays open
    guard.propose(requests())
    assert len(calls) == 3
    clock.now += 11
    first = guard.propose(requests())
    second = guard.propose(requests())

    assert [len(calls), first[0].token_ids, second[0].token_ids] == [5, [1], [1]]
    guard.close()


def test_released_requests_wait_for_the_breaker() -> None:
    """Requests released while the breaker is open are reported before later drafts."""
    clock = Steps()
    proposer = ScriptedProposer([])
    guard = ProposerGuard(proposer, CONFIG, vocab_size=VOCAB, clock=clock)
    guard._guard.breaker.record([False, False])

    guard.schedule_release([4])
    guard.propose(requests())
    before = list(proposer.released)
    clock.now += 100
    guard.propose(requests())

    assert (before, proposer.released) == ([], [4])
    guard.close()


def test_slow_proposer_costs_its_timeout() -> None:
    """A step waits at most for its time-out; late drafts are not used."""
    go_on = threading.Event()

    def act(asked: Sequence[DraftRequest]) -> object:
        go_on.wait(10)
        return [Drafts(token_ids=[1]) for _ in asked]

    guard = guarded(act, timeout_seconds=0.05, breaker_failures=9)
    stopwatch = Stopwatch()

    first = guard.propose(requests())
    waited, stopwatch = stopwatch.took(), Stopwatch()
    second = guard.propose(requests())
    again = stopwatch.took()
    failures = guard.take_failures()
    go_on.set()
    while guard._thread.is_busy:
        third = guard.propose(requests())

    assert (first[0].token_ids, second[0].token_ids) == ([], [])
    assert waited.seconds > 0.04
    assert waited.own_seconds < 1
    assert again.own_seconds < 0.04
    assert failures == {"slow": 1}
    assert third[0].token_ids == [1]  # it has caught up
    assert guard.take_failures() == {}
    guard.close()


def test_hanging_proposer_is_abandoned() -> None:
    """One that does not come back is waited for once, and never asked again."""
    clock, end, calls = Steps(), threading.Event(), []

    def act(asked: Sequence[DraftRequest]) -> object:
        calls.append(1)
        end.wait(30)
        return [Drafts(token_ids=[1]) for _ in asked]

    guard = guarded(act, clock, timeout_seconds=0.02)

    guard.propose(requests())
    clock.now += guards.HUNG_SECONDS + 1
    guard.propose(requests())
    guard.schedule_release([1])
    clock.now += 1000
    found = guard.propose(requests())

    assert found[0].token_ids == []
    assert guard.is_abandoned
    assert guard.take_failures() == {"slow": 1, "hung": 1}
    assert (len(calls), guard._released) == (1, [])
    end.set()
    guard.close()


def test_a_late_call_is_waited_for_at_the_end() -> None:
    """Torch must not compute in a thread of a process that ends."""
    go_on, ended = threading.Event(), threading.Event()

    def act(asked: Sequence[DraftRequest]) -> object:
        go_on.wait()
        ended.set()
        return [Drafts(token_ids=[1]) for _ in asked]

    guard = guarded(act, timeout_seconds=0.01)
    guard.propose(requests())
    assert not ended.is_set()

    threading.Timer(0.1, go_on.set).start()
    guard.close()

    assert ended.is_set()


def test_engine_outlives_a_hanging_proposer(
    speculating_llm: SpeculatingLLM, llama: Oracle
) -> None:
    """The text is right, it costs one timeout, and the engine closes at once."""
    end = threading.Event()
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        speculative={**OPTIONS, "timeout_seconds": 0.2},
    )
    params = SamplingParams(temperature=0.0, max_tokens=20)

    def hang(_: object) -> object:
        return end.wait(60)

    with speculating_llm(config, HostileProposer(hang)) as llm:
        stopwatch = Stopwatch()
        [output] = llm.generate([[5, 6, 7]], params)
        answered, stopwatch = stopwatch.took(), Stopwatch()
        llm.close()
        closed = stopwatch.took()
    end.set()

    assert output.outputs[0].token_ids == llama.greedy([5, 6, 7], 20)
    assert answered.own_seconds < 5
    assert closed.own_seconds < 5


def test_failures_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """The first of a cause is logged, with where it was raised; the next much later."""
    clock = Steps()
    guard = guarded(raise_error, clock, breaker_failures=100)

    for _ in range(3):
        guard.propose(requests())
    clock.now += LOG_SECONDS
    guard.propose(requests())

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "hostile" in messages[0]
    assert "raised" in messages[0]
    assert caplog.records[0].exc_info is not None
    guard.close()
