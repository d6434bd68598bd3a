"""Traces as a collector receives them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import hookline_otel
from hookline.clock import NANOSECONDS
from hookline.config import EngineConfig
from hookline.events import ClockPair
from hookline.finish_cause import (
    Failed,
    FinishCause,
    LengthReached,
    Rejected,
    StoppedByToken,
)
from hookline.payloads import (
    EngineStarted,
    EngineStopped,
    FrontEndChanged,
    LoggerContext,
)
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.startup_timer import StartupPhase
from hookline.stats.finished_request import FinishedGroup, FinishedRequest, RequestTimes
from hookline.stats.iteration_stats import IterationStats
from hookline_faults.otlp import (
    CLIENT_SPAN,
    SPAN_ID,
    START,
    TRACE_ID,
    TRACED,
    Inbox,
    Receiver,
    at,
    draw,
    ended,
)
from hookline_metrics.adapters import LORA, AdapterUsage, AdapterWait, LoraNews
from hookline_metrics.front_end_parts import ServerAddress
from hookline_otel.attributes import genai_attributes, vllm_attributes
from hookline_otel.completions import Completions
from hookline_otel.endpoint import OtlpProtocol
from hookline_otel.logger import OtelLogger
from hookline_otel.options import Semconv
from hookline_otel.outcome import error_type
from hookline_testing.payloads import CAUSES, FACTS, make_started, make_step

STOPPED = EngineStopped(engine_index=0, reason="closed")
KINDS = Span.SpanKind
Value = str | bool | int | float | list[str]


@pytest.fixture(params=list(OtlpProtocol))
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with Receiver(request.param) as started:
        yield started


@pytest.fixture
def grpc_receiver() -> Iterator[Receiver]:
    with Receiver(OtlpProtocol.GRPC) as started:
        yield started


def create(receiver: Receiver, **options: str) -> OtelLogger:
    """A logger that sends traces to the receiver."""
    context = LoggerContext(
        name="otel",
        config=EngineConfig(),
        options={
            "traces_endpoint": receiver.url,
            "protocol": receiver.protocol,
            **options,
        },
    )
    logger = hookline_otel.create_stat_logger(context)
    assert isinstance(logger, OtelLogger)
    return logger


def send(receiver: Receiver, *requests: FinishedRequest, **options: str) -> list[Span]:
    """Lets an engine live for these requests; what the collector got of them."""
    logger = create(receiver, **options)
    logger.engine_started(make_started())
    logger.step_finished(make_step(ended(*requests)))
    logger.engine_stopped(STOPPED)
    return receiver.inbox.spans


def roots(spans: Iterable[Span]) -> list[Span]:
    """Those whose parent is the client's span."""
    return [span for span in spans if span.parent_span_id.hex() == CLIENT_SPAN]


def attributes(span: Span) -> dict[str, Value]:
    """The span's attributes as plain values."""
    return plain(span.attributes)


def plain(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: plain_value(pair.value) for pair in pairs}


def plain_value(value: AnyValue) -> Value:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case _:
            return [item.string_value for item in value.array_value.values]


TREE = """\
chat tiny · 6000 ms
· event 750 ms preempted
· event 1750 ms first token
· event 3000 ms preempted
├ queue · 250 → 500 ms
├ prefill · 500 → 1750 ms
├ preempted · 750 → 1250 ms
├ decode · 1750 → 5750 ms
└ preempted · 3000 → 3250 ms"""


def test_request_is_a_tree_of_spans(receiver: Receiver) -> None:
    """Over either protocol, a request arrives with its phases and events in place."""
    spans = send(receiver, TRACED)

    assert draw(spans) == TREE
    root = spans[0]
    assert root.start_time_unix_nano == START
    assert root.trace_id.hex() == TRACE_ID
    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert root.trace_state == "vendor=1"
    assert root.status.code == Status.STATUS_CODE_UNSET
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert len({span.span_id for span in spans}) == len(spans) == 6
    assert root.kind == KINDS.SPAN_KIND_SERVER
    assert all(span.kind == KINDS.SPAN_KIND_INTERNAL for span in spans[1:])


GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "hookline",
    "gen_ai.request.model": "tiny",
    "gen_ai.request.stream": True,
    "gen_ai.request.max_tokens": 30,
    "gen_ai.request.temperature": 0.0,
    "gen_ai.request.top_p": 1.0,
    "gen_ai.request.top_k": 40,
    "gen_ai.request.frequency_penalty": 0.0,
    "gen_ai.request.presence_penalty": 0.0,
    "gen_ai.request.stop_sequences": ["\n\n"],
    "gen_ai.request.seed": 7,
    "gen_ai.response.id": "chatcmpl-7",
    "gen_ai.response.model": "tiny",
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.response.time_to_first_chunk": 1.5,
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.usage.cache_read.input_tokens": 5,
    "gen_ai.usage.cache_write.input_tokens": 4,
    "hookline.engine_index": 0,
    "hookline.request_id": 1,
    "hookline.tenant": "acme",
    "hookline.queue_seconds": 0.5,
    "hookline.prefill_seconds": 1.0,
    "hookline.decode_seconds": 4.0,
    "hookline.preempted_seconds": 0.75,
    "hookline.ttft_seconds": 1.5,
    "hookline.e2e_seconds": 6.0,
    "hookline.preemptions": 2,
    "hookline.recomputed_tokens": 9,
}
VLLM = {
    "gen_ai.request.id": "chatcmpl-7",
    "gen_ai.request.n": 1,
    "gen_ai.request.max_tokens": 30,
    "gen_ai.request.temperature": 0.0,
    "gen_ai.request.top_p": 1.0,
    "gen_ai.usage.prompt_tokens": 12,
    "gen_ai.usage.completion_tokens": 5,
    "gen_ai.latency.e2e": 6.0,
    "gen_ai.latency.time_to_first_token": 1.5,
    "gen_ai.latency.time_in_queue": 0.5,
    "gen_ai.latency.time_in_model_prefill": 1.0,
    "gen_ai.latency.time_in_model_decode": 4.0,
    "gen_ai.latency.time_in_model_inference": 5.0,
}


@pytest.mark.parametrize(
    ("semconv", "name", "expected"),
    [
        ("genai", "chat tiny", GENAI),
        ("vllm", "llm_request", VLLM),
        ("both", "chat tiny", {**GENAI, **VLLM}),
    ],
)
def test_attributes_follow_the_conventions_asked_for(
    grpc_receiver: Receiver,
    semconv: str,
    name: str,
    expected: dict[str, Value],
) -> None:
    """Name and attributes are those of the option; a temperature of 0 stays."""
    root = send(grpc_receiver, TRACED, semconv=semconv)[0]

    assert (root.name, root.kind) == (name, KINDS.SPAN_KIND_SERVER)
    assert attributes(root) == expected


def test_detailed_times_are_exported_if_measured(grpc_receiver: Receiver) -> None:
    """Steps' times stand in both dialects once they are measured."""
    request = replace(
        TRACED, forward_seconds=1.25, execute_seconds=2.5, schedule_seconds=0.125
    )

    found = attributes(send(grpc_receiver, request, semconv="both")[0])

    assert found["hookline.forward_seconds"] == 1.25
    assert found["hookline.execute_seconds"] == 2.5
    assert found["hookline.schedule_seconds"] == 0.125
    assert found["gen_ai.latency.time_in_model_forward"] == 1.25
    assert found["gen_ai.latency.time_in_model_execute"] == 2.5
    assert found["gen_ai.latency.time_in_scheduler"] == 0.125


def test_unknown_numbers_of_tokens_are_left_out(grpc_receiver: Receiver) -> None:
    """As of a server whose answer does not tell them; a 0 would be wrong."""
    request = replace(TRACED, has_tokens=False)

    found = attributes(send(grpc_receiver, request, semconv="both")[0])

    assert not [name for name in found if name.startswith("gen_ai.usage.")]


def test_untraced_request_has_no_span(grpc_receiver: Receiver) -> None:
    """The front end has decided which requests are traced: those with a trace id."""
    untraced = replace(TRACED, facts=RequestFacts(client_id="b"))

    spans = send(grpc_receiver, untraced, TRACED)

    assert [span.name for span in spans if span.parent_span_id.hex() == CLIENT_SPAN]
    assert len(spans) == 6


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": f"00-{'ab' * 16}-{CLIENT_SPAN}-01"},
        {"traceparent": f"00-{TRACE_ID}-{'0' * 16}-01"},
        {"traceparent": "nonsense"},
    ],
)
def test_without_a_client_span_the_request_is_a_root(
    grpc_receiver: Receiver, headers: dict[str, str]
) -> None:
    """A header that is missing, wrong or of another trace gives no parent."""
    facts = msgspec.structs.replace(TRACED.facts, trace_context=headers)

    root = send(grpc_receiver, replace(TRACED, facts=facts))[0]

    assert root.parent_span_id == b""
    assert root.trace_id.hex() == TRACE_ID


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        (FinishReason.STOP, Status.STATUS_CODE_UNSET, None),
        (FinishReason.LENGTH, Status.STATUS_CODE_UNSET, None),
        (FinishReason.ABORT, Status.STATUS_CODE_UNSET, None),
        (FinishReason.ERROR, Status.STATUS_CODE_ERROR, "engine_error"),
        (FinishReason.TIMEOUT, Status.STATUS_CODE_ERROR, "timeout"),
    ],
)
def test_status_shows_failures(
    grpc_receiver: Receiver,
    reason: FinishReason,
    code: Status.StatusCode.ValueType,
    kind: str | None,
) -> None:
    """Only what failed or was late is an error, with its cause."""
    root = send(grpc_receiver, replace(TRACED, cause=CAUSES[reason]))[0]

    assert root.status.code == code
    assert root.status.message == (CAUSES[reason].label if kind else "")
    assert attributes(root).get("error.type") == kind
    found, is_normal = attributes(root), reason in {"stop", "length"}
    theirs = reason.value if is_normal else "error"
    assert found["gen_ai.response.finish_reasons"] == [theirs]
    ours = found.get("hookline.finish_reasons")
    assert ours == (None if is_normal else [reason.value])


@pytest.mark.parametrize(
    ("times", "tree"),
    [
        (
            RequestTimes(arrived=at(0), queued=at(1), ended=at(2)),
            "chat tiny · 2000 ms\n└ queue · 1000 → 2000 ms",
        ),
        (
            RequestTimes(arrived=at(0), queued=at(0), scheduled=at(1), ended=at(2)),
            "chat tiny · 2000 ms\n├ queue · 0 → 1000 ms\n└ prefill · 1000 → 2000 ms",
        ),
        (
            RequestTimes(
                arrived=at(0),
                queued=at(0),
                scheduled=at(0),
                first_token=at(1),
                last_token=at(1),
                ended=at(1),
            ),
            (
                "chat tiny · 1000 ms\n"
                "· event 1000 ms first token\n"
                "├ queue · 0 → 0 ms\n"
                "└ prefill · 0 → 1000 ms"
            ),
        ),
        (
            RequestTimes(
                arrived=at(1),
                queued=at(0.5),
                scheduled=at(1.5),
                first_token=at(2),
                last_token=at(4),
                ended=at(3),
                preempted=((at(2.5), at(5)),),
            ),
            (
                "chat tiny · 2000 ms\n"
                "· event 1000 ms first token\n"
                "· event 1500 ms preempted\n"
                "├ queue · 0 → 500 ms\n"
                "├ prefill · 500 → 1000 ms\n"
                "├ decode · 1000 → 2000 ms\n"
                "└ preempted · 1500 → 2000 ms"
            ),
        ),
        (
            RequestTimes(
                arrived=at(0),
                queued=at(0.25),
                scheduled=at(1.5),
                first_token=at(2),
                last_token=at(2),
                ended=at(2),
                remote_kv=((at(0.5), at(1.25)),),
            ),
            (
                "chat tiny · 2000 ms\n"
                "· event 2000 ms first token\n"
                "├ queue · 250 → 1500 ms\n"
                "├ remote_kv · 500 → 1250 ms\n"
                "└ prefill · 1500 → 2000 ms"
            ),
        ),
    ],
    ids=["queued", "prefilling", "one token", "beyond its edges", "KV loaded"],
)
def test_phases_end_with_the_request(
    grpc_receiver: Receiver, times: RequestTimes, tree: str
) -> None:
    """A phase that was cut short ends with the request, and none sticks out of it."""
    spans = send(grpc_receiver, replace(TRACED, times=times))

    assert draw(spans) == tree


REJECTED = replace(
    TRACED, times=None, cause=CAUSES[FinishReason.REJECTED], e2e_seconds=0.25
)


def test_rejected_request_ends_when_it_is_reported(
    grpc_receiver: Receiver,
) -> None:
    """It brings no times, but takes as long as it took."""
    assert draw(send(grpc_receiver, REJECTED)) == "chat tiny · 250 ms"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("overloaded", "overloaded"),
        ("context_length_exceeded", "context_length_exceeded"),
        ("what the client wrote", "_OTHER"),
        ("x" * 65, "_OTHER"),
        ("", "_OTHER"),
    ],
)
def test_error_type_is_a_short_code(code: str, error: str) -> None:
    """It is the code that the client got, and never free text."""
    rejected = replace(REJECTED, cause=Rejected(code, "17 requests are open"))

    assert error_type(rejected) == error


@pytest.mark.parametrize("semconv", list(Semconv))
def test_rejected_request_names_its_cause(
    grpc_receiver: Receiver, semconv: Semconv
) -> None:
    """The error is the client's code, and nothing of an answer is made up."""
    [root] = send(grpc_receiver, REJECTED, semconv=semconv)

    assert root.parent_span_id.hex() == CLIENT_SPAN
    assert root.status.code == Status.STATUS_CODE_ERROR
    assert attributes(root) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "hookline",
        "gen_ai.request.model": "tiny",
        "error.type": "overloaded",
        "hookline.tenant": "acme",
    }


@pytest.mark.parametrize(
    ("response_id", "client_id", "found"),
    [("chatcmpl-7", "7", "chatcmpl-7"), ("", "mine", "mine"), ("", "", "1")],
)
def test_response_id_is_the_one_that_the_client_got(
    response_id: str, client_id: str, found: str
) -> None:
    """Offline it is that of the output: the caller's id, or else the engine's."""
    facts = msgspec.structs.replace(
        TRACED.facts, response_id=response_id, client_id=client_id
    )

    request = Completions((replace(TRACED, facts=facts),))

    assert dict(genai_attributes(request, "tiny"))["gen_ai.response.id"] == found
    assert dict(vllm_attributes(request))["gen_ai.request.id"] == found


def test_unstreamed_response_has_no_first_chunk(grpc_receiver: Receiver) -> None:
    """Time to the first chunk is a number of streams only."""
    [root] = roots(send(grpc_receiver, replace(TRACED, is_streamed=False)))

    found = attributes(root)
    assert "gen_ai.response.time_to_first_chunk" not in found
    assert found["hookline.ttft_seconds"] == 1.5


def test_span_names_the_server(grpc_receiver: Receiver) -> None:
    """Once the server is known, its address stands in each span."""
    logger = create(grpc_receiver)
    logger.engine_started(make_started())
    address = ServerAddress(host="host.example", port=8000)
    logger.front_end_changed(FrontEndChanged(parts=(address,)))

    logger.step_finished(make_step(ended(TRACED, REJECTED)))

    logger.engine_stopped(STOPPED)
    found = [attributes(root) for root in roots(grpc_receiver.inbox.spans)]
    assert [each["server.address"] for each in found] == ["host.example"] * 2
    assert [each["server.port"] for each in found] == [8000] * 2


SEVERAL = """\
chat tiny · 8000 ms
· event 1500 ms first token
├ queue · 0 → 1000 ms
├ queue · 0 → 1000 ms
├ prefill · 1000 → 2000 ms
├ prefill · 1000 → 1500 ms
├ decode · 1500 → 4000 ms
└ decode · 2000 → 8000 ms"""


def completion(
    index: int, cause: FinishCause, *, first: float, last: float
) -> FinishedRequest:
    """One of two completions, which begin together."""
    return replace(
        TRACED,
        request_id=5 + index,
        completion_index=index,
        params=SamplingParams(n=2),
        cause=cause,
        output_tokens=10 * (index + 1),
        local_cached_tokens=4 * index,
        external_cached_tokens=0,
        ttft_seconds=first,
        decode_seconds=last - first,
        e2e_seconds=last,
        preemptions=1,
        recomputed_tokens=3,
        times=RequestTimes(
            arrived=at(0),
            queued=at(0),
            scheduled=at(1),
            first_token=at(first),
            last_token=at(last),
            ended=at(last),
        ),
    )


def test_stored_tokens_count_once(grpc_receiver: Receiver) -> None:
    """Completions share the prompt that they store; storing it again adds nothing."""
    pair = [completion(0, LengthReached(), first=2, last=8), TRACED]
    stored = [replace(each, stored_prompt_tokens=8) for each in pair]
    group = FinishedGroup(requests=tuple(stored))
    logger = create(grpc_receiver)
    logger.engine_started(make_started())

    logger.step_finished(
        make_step(IterationStats(finished=group.requests, finished_groups=(group,)))
    )

    logger.engine_stopped(STOPPED)
    found = attributes(grpc_receiver.inbox.spans[0])
    assert found["gen_ai.usage.cache_write.input_tokens"] == 12


def test_request_that_is_not_streamed_says_nothing_of_streams(
    grpc_receiver: Receiver,
) -> None:
    """By the conventions the attribute is set for streams only."""
    root = send(grpc_receiver, replace(TRACED, is_streamed=False))[0]

    assert "gen_ai.request.stream" not in attributes(root)
    assert "gen_ai.response.time_to_first_chunk" not in attributes(root)


def test_span_has_the_id_that_the_front_end_chose(grpc_receiver: Receiver) -> None:
    """Exemplars and log lines point to it; an illegal id is replaced."""
    chosen, illegal = (
        replace(TRACED, facts=msgspec.structs.replace(TRACED.facts, span_id=each))
        for each in (SPAN_ID, "not hexadecimal")
    )

    ids = [span.span_id.hex() for span in roots(send(grpc_receiver, chosen, illegal))]

    assert ids[0] == SPAN_ID
    assert len(ids[1]) == 16


def test_completions_of_a_request_are_one_span(grpc_receiver: Receiver) -> None:
    """It comes with the last completion, has all reasons, and tells phases apart."""
    long = completion(0, StoppedByToken(0), first=2, last=8)
    short = completion(1, LengthReached(), first=1.5, last=4)
    logger = create(grpc_receiver)
    logger.engine_started(make_started())

    logger.step_finished(make_step(IterationStats(finished=(short,))))
    group = FinishedGroup(requests=(long, short))
    over = IterationStats(finished=(long,), finished_groups=(group,))
    logger.step_finished(make_step(over))

    logger.engine_stopped(STOPPED)
    spans = grpc_receiver.inbox.spans
    assert draw(spans) == SEVERAL
    found = attributes(spans[0])
    assert found["gen_ai.request.choice.count"] == 2
    assert found["gen_ai.response.finish_reasons"] == ["stop", "length"]
    assert found["gen_ai.response.time_to_first_chunk"] == 1.5
    assert found["gen_ai.usage.input_tokens"] == 12
    assert found["gen_ai.usage.output_tokens"] == 30
    assert found["gen_ai.usage.cache_read.input_tokens"] == 0
    assert found["hookline.decode_seconds"] == 6.0
    assert found["hookline.e2e_seconds"] == 8.0
    assert (found["hookline.preemptions"], found["hookline.recomputed_tokens"]) == (
        2,
        6,
    )
    parts = [attributes(span)["hookline.completion_index"] for span in spans[1:]]
    assert sorted(map(str, parts)) == ["0"] * 3 + ["1"] * 3


def test_waits_for_an_adapter_are_spans(grpc_receiver: Receiver) -> None:
    """Each is told before the end, on the engine's clock, and the slowest counts."""
    facts = msgspec.structs.replace(TRACED.facts, lora="legal")
    long = replace(completion(0, StoppedByToken(0), first=2, last=8), facts=facts)
    short = replace(completion(1, LengthReached(), first=1.5, last=4), facts=facts)
    logger = create(grpc_receiver)
    begun = ClockPair(wall=at(0), monotonic=5 * NANOSECONDS)
    logger.engine_started(EngineStarted(facts=FACTS, clock=begun))
    waits = [
        AdapterWait(
            long.request_id,
            "legal",
            round(5.3 * NANOSECONDS),
            round(5.9 * NANOSECONDS),
            0.25,
        )
    ]
    usage = AdapterUsage(long.request_id, "legal", 1.0, "ab" * 32)

    news = IterationStats(sections={LORA: LoraNews(waits=waits)})
    logger.step_finished(make_step(news))
    group = FinishedGroup(requests=(long, short))
    over = IterationStats(
        finished=group.requests,
        finished_groups=(group,),
        sections={LORA: LoraNews(usages=[usage])},
    )
    logger.step_finished(make_step(over))

    logger.engine_stopped(STOPPED)
    spans = grpc_receiver.inbox.spans
    assert "├ adapter · 300 → 900 ms" in draw(spans)
    found = attributes(spans[0])
    assert found["hookline.adapter"] == "legal"
    assert found["hookline.adapter_digest"] == "ab" * 32
    assert found["hookline.adapter_wait_seconds"] == 0.6


def test_one_failed_completion_is_an_error(grpc_receiver: Receiver) -> None:
    """The span of a request has the error of any of its completions."""
    good = completion(0, StoppedByToken(0), first=2, last=8)
    bad = completion(1, Failed("it broke"), first=2, last=3)
    logger = create(grpc_receiver)
    logger.engine_started(make_started())

    group = FinishedGroup(requests=(good, bad))
    over = IterationStats(finished=group.requests, finished_groups=(group,))
    logger.step_finished(make_step(over))

    logger.engine_stopped(STOPPED)
    root = grpc_receiver.inbox.spans[0]
    assert (root.status.code, root.status.message) == (
        Status.STATUS_CODE_ERROR,
        "it broke",
    )
    assert attributes(root)["error.type"] == "engine_error"
    assert attributes(root)["gen_ai.response.finish_reasons"] == ["stop", "error"]


def test_engine_start_is_a_trace(grpc_receiver: Receiver) -> None:
    """The parts of an engine's start are children of one span."""
    facts = replace(
        FACTS,
        startup=(
            StartupPhase(name="load weights", started_at=at(0.5), seconds=1.0),
            StartupPhase(name="load model", started_at=at(0), seconds=2.0),
            StartupPhase(name="allocate KV cache", started_at=at(2), seconds=0.125),
        ),
    )
    logger = create(grpc_receiver)

    logger.engine_started(make_started(facts))

    logger.engine_stopped(STOPPED)
    spans = grpc_receiver.inbox.spans
    assert draw(spans) == (
        "engine start · 2125 ms\n"
        "├ load model · 0 → 2000 ms\n"
        "├ load weights · 500 → 1500 ms\n"
        "└ allocate KV cache · 2000 → 2125 ms"
    )
    assert attributes(spans[0])["hookline.model"] == "tiny"
    assert attributes(spans[0])["hookline.executor"] == "simulated"


def test_client_chosen_values_are_truncated(grpc_receiver: Receiver) -> None:
    """No client makes a span large."""
    facts = msgspec.structs.replace(
        TRACED.facts, client_id="x" * 9999, tenant="y" * 9999
    )
    params = SamplingParams(stop=("z" * 256,))
    request = replace(
        TRACED,
        facts=facts,
        params=params,
        cause=Failed("w" * 9999),
    )

    root = send(grpc_receiver, request, semconv="both")[0]

    assert root.ByteSize() < 5000


@pytest.mark.parametrize(
    "trace_id", ["0" * 32, "0AF76519", "not hexadecimal", "é" * 32]
)
def test_illegal_trace_id_harms_no_other_request(
    grpc_receiver: Receiver, trace_id: str
) -> None:
    """A trace id that cannot be sent is as good as none."""
    facts = msgspec.structs.replace(TRACED.facts, trace_id=trace_id)

    spans = send(grpc_receiver, replace(TRACED, facts=facts), TRACED)

    assert {span.trace_id.hex() for span in spans} == {TRACE_ID}


def test_invalid_unicode_harms_no_other_request(
    grpc_receiver: Receiver,
) -> None:
    """Half a surrogate pair, which some clients send, is replaced."""
    facts = msgspec.structs.replace(TRACED.facts, tenant="a\ud800")
    request = replace(TRACED, facts=facts, cause=Failed("\udcff is bad"))

    spans = send(grpc_receiver, request, TRACED)

    assert len(spans) == 12
    assert attributes(spans[0])["hookline.tenant"] == "a?"
    assert spans[0].status.message == "? is bad"


def test_spans_arrive_while_the_engine_runs(grpc_receiver: Receiver) -> None:
    """Sending waits for no end."""
    logger = create(grpc_receiver)
    logger.engine_started(make_started())

    logger.step_finished(make_step(ended(TRACED)))

    grpc_receiver.inbox.wait_for(lambda inbox: len(inbox.spans) == 6)
    logger.engine_stopped(STOPPED)
    assert len(grpc_receiver.inbox.spans) == 6


def resource_of(inbox: Inbox) -> dict[str, Value]:
    """The resource's attributes of the first request with traces."""
    return plain(inbox.traces[0].resource_spans[0].resource.attributes)


def test_resource_and_headers_identify_the_service(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request carries the service, the environment's attributes and headers."""
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=env"
    )

    send(receiver, TRACED, service_name="mine", headers="x-team=blue,x-key=a%3Db")

    resource = resource_of(receiver.inbox)
    assert resource["service.name"] == "mine"
    assert resource["service.version"] == "0.1.0"
    assert resource["deployment.environment.name"] == "test"
    assert resource["service.instance.id"]
    headers = receiver.inbox.headers[0]
    assert (headers["x-team"], headers["x-key"]) == ("blue", "a=b")


@pytest.mark.parametrize(
    ("environment", "name"),
    [({}, "hookline"), ({"OTEL_SERVICE_NAME": "from-env"}, "from-env")],
)
def test_service_has_a_name_without_an_option(
    grpc_receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    name: str,
) -> None:
    """The environment names it, and without that it is hookline."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)

    send(grpc_receiver, TRACED)

    assert resource_of(grpc_receiver.inbox)["service.name"] == name
