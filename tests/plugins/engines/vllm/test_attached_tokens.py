"""Tokens that are only counted, and tokens that a logger wants to know."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.frontend.observation import Observers
from hookline.payloads import StateChanged, TokensGenerated
from hookline_testing.fake_vllm import (
    LENGTH,
    STOP,
    EngineCoreEvent,
    EngineCoreOutput,
    EngineCoreRequest,
    PrefillStats,
    SchedulerStats,
    vllm_config,
)
from hookline_vllm.engine_account import EngineAccount
from hookline_vllm.facts import engine_facts
from hookline_vllm.front_end import FrontEnd, NoticeClock
from hookline_vllm.notices import Added, Outputs, Recorded

STEP_NS = 10_000_000


class Heard:
    """A recorder of what requests have done."""

    def __init__(self) -> None:
        self.states: list[StateChanged] = []
        self.tokens: dict[int, list[int]] = {}

    @hookimpl
    def state_changed(self, state: StateChanged) -> None:
        self.states.append(state)

    def told(self) -> tuple[object, ...]:
        """What loggers are told of the requests' ends, and of their intervals."""
        iterations = [each.iteration for each in self.states]
        intervals: Counter[float] = Counter()
        for each in iterations:
            for seconds, count in each.inter_token_seconds:
                intervals[seconds] += count
        ended = [request for each in iterations for request in each.finished]
        return (
            sum(each.generation_tokens for each in iterations),
            intervals,
            sorted(
                (each.request_id, each.reason, each.output_tokens, each.decode_seconds)
                for each in ended
            ),
            self.states[-1].scheduler.totals.sampled_tokens,
        )


class HeardTokens(Heard):
    """One that wants to know the tokens, too."""

    @hookimpl
    def tokens_generated(self, generated: TokensGenerated) -> None:
        for each in generated.events:
            self.tokens.setdefault(each.request_id, []).extend(each.token_ids)


def front_end(heard: Heard) -> FrontEnd:
    config, clock = EngineConfig(), NoticeClock()
    account = EngineAccount(
        engine_facts(vllm_config(), 0, "0.32.0"),
        config,
        Observers(config, recorder=heard),
        clock,
        is_alone=True,
        tells_requests=True,
    )
    return FrontEnd({0: account}, config, account._observers, clock)


class Played:
    """A front end in which three requests come."""

    def __init__(self, heard: Heard) -> None:
        self._front_end = front_end(heard)
        self._at = 0
        for name in "abc":
            request: Any = EngineCoreRequest(name, name, [1, 2], arrival_time=0.0)
            self._front_end.handle(Added(1, request, None, 1, None))

    def step(self, outputs: Sequence[EngineCoreOutput], *, is_recorded: bool) -> None:
        """Has the outputs of a step come in two parts."""
        self._at += STEP_NS
        for part in (outputs[:2], outputs[2:]):
            told: Any = part
            tokens = [tuple(each.new_token_ids) for each in part]
            self._front_end.handle(
                Outputs(self._at + 5, told, tokens, self._at / 1e9, ())
            )
        if is_recorded:
            state: Any = SchedulerStats(len(outputs))
            self._front_end.handle(Recorded(self._at + 6, 0, state, None))
            self._front_end.flush()


def play(
    heard: Heard, steps: Sequence[Sequence[EngineCoreOutput]], lost: int = -1
) -> None:
    """Plays steps; of the one of number `lost` the record is lost."""
    played = Played(heard)
    for number, outputs in enumerate(steps):
        played.step(outputs, is_recorded=number != lost)


def first(name: str, at: int, *kinds: int) -> EngineCoreOutput:
    events = [EngineCoreEvent(kind, at / 1e9) for kind in kinds or (1, 2)]
    return EngineCoreOutput(name, [5], events=events, prefill_stats=PrefillStats(2))


def test_counted_tokens_are_those_that_are_told() -> None:
    """Whether a logger wants tokens changes nothing else, whatever a step brings."""
    steps = [
        [first(name, STEP_NS - 9) for name in "abc"],
        [EngineCoreOutput(name, [6]) for name in "abc"],
        [
            EngineCoreOutput("a", [7, 8]),
            EngineCoreOutput("b", []),
            EngineCoreOutput("c", [7], STOP),
        ],
        [EngineCoreOutput("b", [9]), first("a", 4 * STEP_NS - 9, 3, 2)],
        [EngineCoreOutput("a", [9]), EngineCoreOutput("b", [9])],
        [EngineCoreOutput("a", [9], LENGTH), EngineCoreOutput("b", [9, 9], LENGTH)],
    ]
    counted, told = Heard(), HeardTokens()
    play(counted, steps)
    play(told, steps)

    assert sorted(map(len, told.tokens.values())) == [3, 6, 7]
    assert counted.told() == told.told()
    assert counted.told()[0] == 16


def test_step_whose_record_is_lost_keeps_its_place() -> None:
    """Of two steps that are told together the first is counted first."""
    steps = [
        [first("a", STEP_NS - 9)],
        [EngineCoreOutput("a", [6, 6])],
        [EngineCoreOutput("a", [7])],
        [EngineCoreOutput("a", [8], LENGTH)],
    ]
    counted, told = Heard(), HeardTokens()
    play(counted, steps, lost=1)
    play(told, steps, lost=1)

    assert counted.told() == told.told()
    assert counted.told()[0] == 5
