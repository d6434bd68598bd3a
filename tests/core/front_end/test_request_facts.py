"""What the front end adds to the facts of a request."""

import re

import pytest

from hookline import LLM, EngineConfig, SamplingParams
from hookline.config import DetailedTrace, ExecutorConfig, ObserverConfig
from hookline.frontend.input_processor import completed
from hookline.request import RequestFacts, Slo
from hookline_metrics import HistogramValue

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
SIMULATED = ExecutorConfig(name="simulated")


def headers(flags: str, trace: str = TRACE) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{SPAN}-{flags}"}


def trace_id(ratio: float | None, context: dict[str, str]) -> str:
    facts = RequestFacts(trace_context=context)
    return completed(facts, ObserverConfig(trace_ratio=ratio)).trace_id


@pytest.mark.parametrize("ratio", [None, 0.0, 1.0])
def test_callers_trace_is_continued(ratio: float | None) -> None:
    """A caller that records its trace decides, whatever the sampling rate."""
    assert trace_id(ratio, headers("01")) == TRACE
    assert trace_id(ratio, headers("03")) == TRACE


@pytest.mark.parametrize("ratio", [None, 1.0])
def test_unsampled_trace_of_a_caller_stays_unsampled(ratio: float | None) -> None:
    """A caller that does not record its trace decides, too."""
    assert trace_id(ratio, headers("00")) == ""


def test_request_without_a_trace_gets_one_by_chance() -> None:
    """Our share of the requests without a trace is traced, under new ids."""
    config = ObserverConfig(trace_ratio=0.5)

    ids = [completed(RequestFacts(), config).trace_id for _ in range(2000)]

    traced = [one for one in ids if one]
    assert 850 < len(traced) < 1150
    assert len(set(traced)) == len(traced)
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in traced)


def test_traced_request_gets_a_span_of_its_own() -> None:
    """Each has a new id in its caller's trace; facts that have ids keep them."""
    config = ObserverConfig()
    traced = RequestFacts(trace_context=headers("01"))

    first, second = (completed(traced, config) for _ in range(2))

    assert first.span_id != second.span_id
    assert all(re.fullmatch("[0-9a-f]{16}", each.span_id) for each in (first, second))
    assert SPAN not in {first.span_id, second.span_id}
    assert completed(first, config) == first
    assert completed(RequestFacts(), config).span_id == ""


def test_requests_are_not_traced_without_a_receiver() -> None:
    """Without a receiver no request starts a trace."""
    assert trace_id(None, {}) == ""


@pytest.mark.parametrize(
    "context",
    [{"traceparent": "junk"}, headers("01", "0" * 32), {"tracestate": "a=b"}],
)
def test_invalid_trace_header_is_ignored(context: dict[str, str]) -> None:
    """A header that is not a valid W3C trace context is ignored."""
    assert trace_id(None, context) == ""


def test_engine_objectives_apply_to_every_request() -> None:
    """A request without objectives has the engine's, another its own over them."""
    config = ObserverConfig(slo=Slo(ttft=1.0, e2e=9.0))

    plain = completed(RequestFacts(), config)
    own = completed(RequestFacts(slo=Slo(ttft=0.2)), config)

    assert plain.slo == Slo(ttft=1.0, e2e=9.0)
    assert own.slo == Slo(ttft=0.2, e2e=9.0)


def test_facts_that_are_complete_stay_the_same_object() -> None:
    """Where there is nothing to add nothing is copied."""
    facts = RequestFacts(client_id="a")

    assert completed(facts, ObserverConfig()) is facts


def test_offline_metrics_are_true_at_once() -> None:
    """LLM.get_metrics has every number when generate returns."""
    with LLM.from_config(EngineConfig(executor=SIMULATED)) as llm:
        llm.generate([[5, 6, 7], [8, 9]], SamplingParams(max_tokens=4))
        families = {family.name: family for family in llm.get_metrics()}

    [generated] = families["hookline_generation_tokens"].samples
    [first] = families["vllm:time_to_first_token_seconds"].samples
    assert generated.value == 8
    assert isinstance(first.value, HistogramValue)
    assert first.value.count == 2


def counts(llm: LLM, name: str) -> dict[tuple[str, ...], int]:
    """The observations of each series; nothing for a family that is not there."""
    return {
        sample.labels: sample.value.count
        for family in llm.get_metrics()
        if family.name == name
        for sample in family.samples
        if isinstance(sample.value, HistogramValue)
    }


@pytest.mark.parametrize(
    ("traces", "forward", "execute"),
    [
        (ObserverConfig().detailed_traces, [1], [1]),
        ((DetailedTrace.MODEL,), [1], []),
        ((DetailedTrace.NONE,), [], []),
    ],
)
def test_times_of_requests_are_measured_unless_turned_off(
    traces: tuple[DetailedTrace, ...], forward: list[int], execute: list[int]
) -> None:
    """Nobody has to ask for vLLM's times in the model and in the executor."""
    observers = ObserverConfig(detailed_traces=traces)

    with LLM.from_config(EngineConfig(executor=SIMULATED, observers=observers)) as llm:
        llm.generate([[5, 6, 7]], SamplingParams(max_tokens=4))
        found = [
            list(counts(llm, f"vllm:model_{part}_time_milliseconds").values())
            for part in ("forward", "execute")
        ]

    assert found == [forward, execute]


def test_sleep_and_wake_up_are_timed() -> None:
    """Each call counts once under its operation's name in vLLM."""
    with LLM.from_config(EngineConfig(executor=SIMULATED)) as llm:
        llm.sleep()
        llm.wake_up()
        llm.wake_up()
        found = counts(llm, "vllm:sleep_mode_operation_duration_seconds")

    assert found == {("demo", "sleep"): 1, ("demo", "wake"): 2}


def test_offline_metrics_can_be_left_out() -> None:
    """An LLM without metrics raises an error."""
    config = EngineConfig(executor=SIMULATED)

    with (
        LLM.from_config(config, collect_metrics=False) as llm,
        pytest.raises(RuntimeError, match="collect_metrics=False"),
    ):
        llm.get_metrics()


def test_requests_on_their_way_to_a_dead_engine_count_as_received() -> None:
    """Requests that the engine never received end with an error and are counted."""
    with LLM.from_config(EngineConfig(executor=SIMULATED)) as llm:
        prepared = llm.front_end.prepare([5, 6], SamplingParams(max_tokens=2, n=3))
        llm.generate([5, 6], SamplingParams(max_tokens=2))
        llm.front_end.submit(prepared, lambda _: None, arrived_at=0, is_streamed=False)

        llm.front_end.fail("power went out")

        families = {family.name: family for family in llm.get_metrics()}

    [received] = families["hookline_requests_received"].samples
    finished = families["hookline_requests_finished"].samples
    assert received.value == sum(sample.value for sample in finished) == 4  # type: ignore[misc]
