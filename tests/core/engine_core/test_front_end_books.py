"""The front end's conservation law, however requests end."""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from hookline.clock import VirtualClock
from hookline.config import CacheConfig
from hookline.engine.commands import Finish
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Failed, Rejected, StoppedByString
from hookline.outputs import RequestOutput
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue
from hookline_testing.essential import examples
from hookline_testing.observed import ObservedEngine
from hookline_testing.simulation import simulated_core


def make() -> ObservedEngine:
    clock = VirtualClock()
    cache = CacheConfig(block_size=2, num_kv_blocks=10)
    return ObservedEngine(
        simulated_core(clock=clock, cache=cache, max_model_len=16), clock
    )


def text_of(engine: ObservedEngine) -> str:
    outputs = [news for news in engine.news if isinstance(news, RequestOutput)]
    return "".join(each.text for news in outputs for each in news.outputs)


def test_every_way_to_end_is_counted_once() -> None:
    """Finished by length, by abort and by rejection add up to what was received."""
    engine = make()
    engine.submit([1] * 3, SamplingParams(max_tokens=2))
    aborted = engine.submit([2] * 3, SamplingParams(max_tokens=9, n=2))
    engine.accounting.reject(RequestFacts(), Rejected("overloaded", ""))
    engine.receive()

    engine.abort(aborted)
    engine.abort(aborted)
    engine.run()

    assert engine.accounting.received == 4
    assert engine.accounting.finished == {"length": 1, "abort": 2, "rejected": 1}
    assert (engine.accounting.residue, engine.accounting.num_in_flight) == (0, 0)


def test_stop_string_ends_the_request_for_client_and_engine() -> None:
    """The client's end is the stop string; the engine's FINISHED confirms it."""
    plain = make()
    plain.submit([1] * 3, SamplingParams(max_tokens=8))
    plain.run()
    whole = text_of(plain)

    engine = make()
    engine.submit([1] * 3, SamplingParams(max_tokens=8, stop=(whole[2:4],)))
    while engine.accounting.num_in_flight:
        engine.receive()
        engine.clock.sleep(0.25)

    end = whole.index(whole[2:4])
    ended = engine.finished[1]
    assert text_of(engine) == whole[:end]
    assert ended.cause == StoppedByString(whole[2:4])
    assert ended.output_tokens == end + 2
    assert ended.e2e_seconds == (end + 2) + 0.25 * (end + 1)
    assert engine.accounting.finished == {"stop": 1}


def test_abort_is_unconfirmed_until_the_engine_answers() -> None:
    """An aborted request is in flight until its blocks have been given back."""
    engine = make()
    request = engine.submit([1] * 3, SamplingParams(max_tokens=8))
    engine.receive()

    engine.abort(request)
    waiting = engine.accounting.num_in_flight, dict(engine.accounting.finished)
    engine.receive()

    assert waiting == (1, {})
    assert engine.accounting.residue == 0
    assert engine.accounting.finished == {"abort": 1}


def test_engine_death_ends_everyone_with_an_error() -> None:
    """All open requests end, aborted ones keep their reason, and nothing is left."""
    engine = make()
    engine.submit([1] * 3, SamplingParams(max_tokens=8))
    aborted = engine.submit([2] * 3, SamplingParams(max_tokens=8))
    engine.receive()
    engine.abort(aborted)

    iteration, events = engine.end_all(Failed("it broke"))

    assert [event.reason for event in events] == [
        FinishReason.ERROR,
        FinishReason.ABORT,
    ]
    assert [each.output_tokens for each in iteration.finished] == [1, 1]
    assert isinstance(engine.news[-1], EngineDeadError)
    assert engine.accounting.finished == {"error": 1, "abort": 1}
    assert (engine.accounting.residue, engine.accounting.num_in_flight) == (0, 0)


def test_closed_engine_takes_nothing_more() -> None:
    """After close every call raises that the engine is gone."""
    engine = make()
    engine.client.close()
    engine.client.close()

    calls: list[Callable[[], object]] = [
        lambda: engine.submit([1], SamplingParams(max_tokens=1)),
        lambda: engine.send(Finish([1], Aborted("late"))),
        engine.reset_prefix_cache,
        lambda: engine.client.receive(0.0),
    ]

    for call in calls:
        with pytest.raises(EngineDeadError, match="it was closed"):
            call()


ACTIONS = st.lists(
    st.sampled_from(["add", "add two", "abort", "wait", "reset"]) | st.just("step"),
    max_size=40,
)


@settings(max_examples=examples(100), deadline=None)
@given(actions=ACTIONS)
def test_books_balance_at_every_moment(actions: list[str]) -> None:
    """Random traffic: each request ends once, its phases fit, and sums agree."""
    engine = make()
    requests = []
    for index, action in enumerate(actions):
        if action.startswith("add"):
            params = SamplingParams(max_tokens=1 + index % 9, n=1 + (action != "add"))
            requests.append(engine.submit([3 + index % 2] * (1 + index % 7), params))
        elif action == "abort" and requests:
            engine.abort(requests[index % len(requests)])
        elif action == "wait":
            engine.clock.sleep(0.5)
        elif action == "reset":
            engine.reset_prefix_cache()
        elif action == "step":
            engine.receive()
    engine.run()
    engine.reset_prefix_cache()
    output = engine.receive()

    assert output is not None
    assert output.stats.totals.residue == Residue()
    assert engine.accounting.num_in_flight == 0
    assert (
        engine.accounting.received
        == len(engine.finished)
        == output.stats.totals.received
    )
    assert engine.accounting.finished == output.stats.totals.finished
    assert sum(len(each.finished_groups) for each in engine.iterations) == len(requests)
    generated = sum(each.generation_tokens for each in engine.iterations)
    assert generated == sum(each.output_tokens for each in engine.finished.values())
    prompts = sum(each.prompt_tokens for each in engine.iterations)
    assert prompts == sum(
        each.prompt_tokens for each in engine.finished.values() if each.output_tokens
    )
    hit = sum(each.prompt_tokens_local for each in engine.iterations)
    assert hit <= output.stats.totals.prefix_cache.hit_tokens
    for each in engine.finished.values():
        if each.prefill_seconds is not None:
            assert each.decode_seconds is not None
            assert each.inference_seconds == each.prefill_seconds + each.decode_seconds
            assert each.ttft_seconds is not None
            assert each.ttft_seconds >= each.prefill_seconds
