"""Loggers get each request's events in order and with its facts."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from hookline import LLM, FinishReason, RequestError, RequestFacts, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline.events import Finished, NewTokens, Preempted, Queued, Scheduled
from hookline.finish_cause import Rejected
from hookline.payloads import (
    EngineFailed,
    RequestsFinished,
    RequestsPreempted,
    RequestsQueued,
    RequestsScheduled,
    StateChanged,
    StepFinished,
    TokensGenerated,
)
from hookline_testing import PluginSite, assert_conserved

Event = Queued | Scheduled | Preempted | NewTokens | Finished
REQUEST_HOOKS = (
    RequestsQueued,
    RequestsPreempted,
    RequestsScheduled,
    TokensGenerated,
    RequestsFinished,
)
"""In the order in which a step tells them."""

PROMPTS = [list(range(5, 5 + length)) for length in (3, 17, 30, 9, 44, 2)]
FACTS = [
    RequestFacts(
        client_id=f"client-{index}",
        tenant=f"tenant-{index % 2}",
        priority=index,
        trace_context={"traceparent": f"00-{index:032x}-{index:016x}-01"},
        trace_id=f"{index:032x}" if index else "",
        span_id=f"{index:016x}" if index else "",
    )
    for index in range(len(PROMPTS))
]
OUTPUT_TOKENS = 20
PARAMS = SamplingParams(max_tokens=OUTPUT_TOKENS)


@pytest.fixture
def llm(site: PluginSite) -> Iterator[LLM]:
    """A simulated engine whose pool is too small for all requests at once."""
    del site  # it need only be there
    config = EngineConfig(
        model=ModelConfig(max_model_len=80),
        cache=CacheConfig(block_size=4, num_kv_blocks=24),
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=("recorder",)),
    )
    with LLM.from_config(config) as llm:
        yield llm
        if llm.front_end.engines.failure is None:
            assert_conserved(llm)


def told(llm: LLM, site: PluginSite) -> list[object]:
    """Every payload so far."""
    assert llm.flush(10)
    return [payload for _, payload in site.calls()]


def events_of(payloads: list[object]) -> dict[int, list[Event]]:
    """Returns each request's events in order of arrival."""
    found: dict[int, list[Event]] = {}
    for payload in payloads:
        if isinstance(payload, REQUEST_HOOKS):
            for event in payload.events:
                found.setdefault(event.request_id, []).append(event)
    return found


def test_engine_starts_first_and_stops_last(site: PluginSite) -> None:
    """engine_started is the first call of all and engine_stopped the last."""
    config = EngineConfig(
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=("recorder",)),
    )

    with LLM.from_config(config) as llm:
        llm.generate(PROMPTS, PARAMS)

    hooks = [hook for hook, _ in site.calls()]
    assert hooks[0] == "engine_started"
    assert hooks[-1] == "engine_stopped"
    assert hooks.count("engine_started") == hooks.count("engine_stopped") == 1


def test_step_calls_its_hooks_in_the_documented_order(
    llm: LLM, site: PluginSite
) -> None:
    """Queued, preempted, scheduled, tokens, finished, each at most once, then the
    step or the state itself."""
    llm.generate(PROMPTS, PARAMS)

    batch: list[int] = []
    batches = 0
    for payload in told(llm, site):
        if isinstance(payload, StepFinished | StateChanged):
            assert all(before < after for before, after in pairwise(batch)), batch
            batch, batches = [], batches + 1
        elif isinstance(payload, REQUEST_HOOKS):
            batch.append(REQUEST_HOOKS.index(type(payload)))
            assert payload.events
    assert batch == []
    assert batches > OUTPUT_TOKENS


def test_each_request_is_reported_from_queued_to_finished(
    llm: LLM, site: PluginSite
) -> None:
    """QUEUED, then SCHEDULED, NEW_TOKENS for every token, FINISHED once, at the end;
    a PREEMPTED is followed by a SCHEDULED that says so."""
    outputs = llm.generate(PROMPTS, PARAMS)

    events = events_of(told(llm, site))
    assert len(events) == len(PROMPTS)
    for output, history in zip(outputs, events.values(), strict=True):
        kinds = Counter(type(event) for event in history)
        tokens = [
            token
            for event in history
            if isinstance(event, NewTokens)
            for token in event.token_ids
        ]
        admissions = [event for event in history if isinstance(event, Scheduled)]
        assert isinstance(history[0], Queued)
        assert isinstance(history[1], Scheduled)
        assert isinstance(history[-1], Finished)
        assert kinds[Queued] == kinds[Finished] == 1
        assert [each.is_resumed for each in admissions].count(False) == 1
        assert kinds[Scheduled] == kinds[Preempted] + 1
        assert tokens == output.outputs[0].token_ids
        assert history[-1].output_tokens == len(tokens)
        times = [event.at for event in history]
        assert times == sorted(times)
    assert any(isinstance(e, Preempted) for each in events.values() for e in each)


def test_facts_arrive_with_each_event(llm: LLM, site: PluginSite) -> None:
    """Client id, tenant, priority and trace context come with every event, and with
    the request's sum, just as they were given."""
    llm.generate(PROMPTS, PARAMS, facts=FACTS)

    payloads = told(llm, site)
    ids = list(events_of(payloads))
    expected = dict(zip(ids, FACTS, strict=True))
    for payload in payloads:
        if isinstance(payload, REQUEST_HOOKS):
            for event in payload.events:
                assert payload.facts[event.request_id] == expected[event.request_id]
        if isinstance(payload, RequestsPreempted):
            for event in payload.events:
                if (other := event.beneficiary_id) is not None:
                    assert payload.facts[other] == expected[other]
    sums = {
        request.request_id: request.facts
        for payload in payloads
        if isinstance(payload, StepFinished | StateChanged)
        for request in payload.iteration.finished
    }
    assert sums == expected


def test_iterations_add_up_to_the_events(llm: LLM, site: PluginSite) -> None:
    """Tokens, first tokens, ends and preemptions are the same in both tellings."""
    llm.generate(PROMPTS, PARAMS)

    payloads = told(llm, site)
    all_events = [e for history in events_of(payloads).values() for e in history]
    iterations = [
        payload.iteration
        for payload in payloads
        if isinstance(payload, StepFinished | StateChanged)
    ]
    new = [event for event in all_events if isinstance(event, NewTokens)]
    assert sum(i.generation_tokens for i in iterations) == sum(
        len(event.token_ids) for event in new
    )
    assert sum(len(i.first_tokens) for i in iterations) == len(PROMPTS)
    assert sum(i.prompt_tokens for i in iterations) == sum(map(len, PROMPTS))
    later = [count for i in iterations for _, count in i.inter_token_seconds]
    assert sum(later) == len(new) - len(PROMPTS)
    assert sum(i.preemptions for i in iterations) == sum(
        isinstance(event, Preempted) for event in all_events
    )


EMPTY = Rejected("invalid_request", "the prompt is empty")


def test_rejected_request_is_reported_with_a_state(llm: LLM, site: PluginSite) -> None:
    """A rejection has no events, but a state with its FinishedRequest."""
    with pytest.raises(RequestError):
        llm.generate([[]])
    llm.front_end.reject(FACTS[1], EMPTY)

    states = [
        payload
        for payload in told(llm, site)
        if isinstance(payload, StateChanged) and payload.cause == "rejected"
    ]
    [request] = states[0].iteration.finished
    assert len(states) == 1
    assert request.reason is FinishReason.REJECTED
    assert request.cause == EMPTY
    assert request.facts == FACTS[1]


def test_rejected_request_is_traced_like_any_other(llm: LLM, site: PluginSite) -> None:
    """A caller's trace is continued where its request is rejected, too."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    context = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    facts = msgspec.structs.replace(FACTS[1], trace_context=context, trace_id="")

    llm.front_end.reject(facts, EMPTY)

    [request] = [
        each
        for payload in told(llm, site)
        if isinstance(payload, StateChanged)
        for each in payload.iteration.finished
    ]
    assert request.facts.trace_id == trace


def test_dead_engine_is_reported_after_its_requests(llm: LLM, site: PluginSite) -> None:
    """Requests that the engine took with it are told as finished with an error, and
    then the failure itself."""
    prepared = llm.front_end.prepare(PROMPTS[0], PARAMS, facts=FACTS[0])
    llm.front_end.submit(prepared, lambda _: None, arrived_at=0, is_streamed=False)

    llm.front_end.fail("power went out")

    *_, finished, state, failed = told(llm, site)
    assert isinstance(finished, RequestsFinished)
    [event] = finished.events
    assert event.reason is FinishReason.ERROR
    assert finished.facts[event.request_id] == FACTS[0]
    assert isinstance(state, StateChanged)
    assert state.cause == "failed"
    assert isinstance(failed, EngineFailed)
    assert failed.reason == "power went out"
    assert failed.open_requests == 1
