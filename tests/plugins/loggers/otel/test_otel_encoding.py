"""What is written by hand is what Protocol Buffers would write."""

import logging
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import (
    ResourceSpans,
    ScopeSpans,
    Span,
    Status,
)
from opentelemetry.sdk import resources
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util import instrumentation

from hookline.finish_cause import (
    Aborted,
    Failed,
    FinishCause,
    LengthReached,
    Rejected,
    StoppedByString,
)
from hookline.request import FinishReason, RequestFacts
from hookline.stats.finished_request import FinishedRequest, RequestTimes
from hookline_faults.otlp import CLIENT_SPAN, TRACE_ID, TRACED
from hookline_metrics.front_end_parts import ServerAddress
from hookline_otel.attributes import (
    cut,
    genai_attributes,
    hookline_attributes,
    operation_attributes,
    vllm_attributes,
)
from hookline_otel.completions import Completions
from hookline_otel.envelope import Envelope
from hookline_otel.ids import ChosenIds, find_parent
from hookline_otel.options import Semconv
from hookline_otel.origin import Origin
from hookline_otel.phases import Phase, phases_of
from hookline_otel.request_trace import RequestTrace
from hookline_otel.spans import encode
from hookline_otel.tracing import Pairs, Trace, make_spans
from hookline_otel.wire import AttributeValue, attribute, varint

LOCAL, REMOTE = 0x100, 0x300
RESOURCE = resources.Resource({"service.name": "a", "cpus": 2}, "https://resource")
SCOPE = instrumentation.InstrumentationScope("name", "1", "https://scope")
ORIGIN = Origin("tiny", 2, ServerAddress(host="host.example", port=8000))

texts = st.text(st.characters(codec="utf-8"))
integers = st.integers(-(2**63), 2**63 - 1)
scalars: st.SearchStrategy[AttributeValue] = st.one_of(
    texts, integers, st.booleans(), st.floats(allow_nan=False)
)
values = st.one_of(scalars, st.lists(scalars, max_size=4).map(tuple))
moments = st.integers(0, 2**63)
maybe_moments = st.none() | moments
seconds = st.floats(0, 1e6)
counts = st.integers(0, 2**40)
any_texts = st.text(max_size=400)

times = st.builds(
    RequestTimes,
    arrived=moments,
    queued=maybe_moments,
    scheduled=maybe_moments,
    first_token=maybe_moments,
    last_token=maybe_moments,
    ended=moments,
    preempted=st.lists(st.tuples(moments, moments), max_size=3).map(tuple),
)
facts = st.builds(
    RequestFacts,
    client_id=any_texts,
    response_id=any_texts,
    tenant=st.none() | any_texts,
    trace_id=st.just(TRACE_ID),
    trace_context=st.just({}) | st.just(TRACED.facts.trace_context),
    operation=st.sampled_from(("chat", "text_completion")),
)
causes: st.SearchStrategy[FinishCause] = st.one_of(
    st.builds(StoppedByString, any_texts),
    st.builds(LengthReached),
    st.builds(Aborted, any_texts),
    st.builds(Failed, any_texts),
    st.builds(Rejected, any_texts, any_texts),
)
finished: st.SearchStrategy[FinishedRequest] = st.builds(
    replace,
    st.just(TRACED),
    request_id=counts,
    facts=facts,
    cause=causes,
    times=times,
    prompt_tokens=counts,
    output_tokens=counts,
    ttft_seconds=st.none() | seconds,
    e2e_seconds=seconds,
    forward_seconds=st.none() | seconds,
)


def any_value(value: AttributeValue) -> AnyValue:
    """The value as a message."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case tuple():
            return AnyValue(array_value=ArrayValue(values=map(any_value, value)))


def pairs(found: Pairs) -> list[KeyValue]:
    """The attributes as messages, in order of their names."""
    return [
        KeyValue(key=name, value=any_value(value))
        for name, value in sorted(dict(found).items())
        if value is not None
    ]


def found_pairs(span: Span) -> list[KeyValue]:
    """Those of a span, likewise; a name that stands there twice stays so."""
    return sorted(span.attributes, key=lambda pair: pair.key)


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_written_as_the_format_has_them(number: int) -> None:
    """Seven bits a byte, the lowest first, and a mark on all but the last."""
    groups = varint(number)

    assert [group >> 7 for group in groups[:-1]] == [1] * (len(groups) - 1)
    assert groups[-1] < 0x80
    assert sum((group & 0x7F) << 7 * at for at, group in enumerate(groups)) == number


@given(texts, values)
def test_attribute_is_read_back(name: str, value: AttributeValue) -> None:
    """Names and values of all kinds and sizes arrive as they are."""
    written = attribute(b"\x4a", name, value)

    expected = Span(attributes=[KeyValue(key=name, value=any_value(value))])
    assert Span.FromString(written) == expected


def test_enumeration_is_written_as_its_text() -> None:
    """A value may be of a type that is one of the known ones as well."""
    assert attribute(b"\x4a", "x", FinishReason.STOP) == attribute(b"\x4a", "x", "stop")


def test_value_of_another_type_is_refused() -> None:
    """What OTLP knows no form for is no attribute."""
    with pytest.raises(TypeError, match="no attribute can be a dict"):
        attribute(b"\x4a", "name", {})  # type: ignore[arg-type]


def spans_of(request: FinishedRequest, semconv: Semconv) -> list[ReadableSpan]:
    """The SDK's spans of a request, its own first."""
    trace = RequestTrace(
        request=Completions((request,)), origin=ORIGIN, semconv=semconv, observed_at=0
    )
    spans = made_spans(trace.described())
    assert trace.num_parts == len(spans)
    return spans


def made_spans(trace: Trace) -> list[ReadableSpan]:
    """The SDK's spans of a trace, its root first."""
    made, ids = InMemorySpanExporter(), ChosenIds()
    provider = TracerProvider(
        ALWAYS_ON, RESOURCE, shutdown_on_exit=False, id_generator=ids
    )
    provider.add_span_processor(SimpleSpanProcessor(made))
    make_spans(provider.get_tracer("name", "1", "https://scope"), ids, trace)
    return list(made.get_finished_spans())


@given(finished, st.sampled_from(Semconv))
def test_spans_are_encoded_as_by_opentelemetry(
    request: FinishedRequest, semconv: Semconv
) -> None:
    """Its encoder takes several times as long, and is what this one must agree with."""
    spans = spans_of(request, semconv)

    body = Envelope(RESOURCE, SCOPE).encode(spans)

    expected = encode_spans(spans)
    for span in expected.resource_spans[0].scope_spans[0].spans:
        if span.status == Status():
            span.ClearField("status")
    assert ExportTraceServiceRequest.FromString(body) == expected


def test_links_are_encoded_as_by_opentelemetry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A phase that continues an earlier one links to its span, unless none may be."""
    phases = [Phase("prefill", 1, 2), Phase("decode", 2, 3, follows=0)]
    trace = Trace(name="route", start=1, end=3, phases=phases)

    for limit in ("1", "0"):
        monkeypatch.setenv("OTEL_SPAN_LINK_COUNT_LIMIT", limit)
        spans = made_spans(trace)

        [expected] = encode_spans(spans).resource_spans[0].scope_spans
        for span, found in zip(expected.spans, map(encode, spans), strict=True):
            span.ClearField("status")
            assert Span.FromString(found) == span
        assert len(expected.spans[2].links) == int(limit)
    assert expected.spans[2].dropped_links_count == 1


def test_dropped_parts_are_counted_as_by_opentelemetry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limits of the standard's variables leave a number behind."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3")
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "1")

    root, *_ = spans_of(TRACED, Semconv.GENAI)

    found = Span.FromString(encode(root))
    assert len(found.attributes) == 3
    assert found.dropped_attributes_count == root.dropped_attributes > 9
    assert (len(found.events), found.dropped_events_count) == (1, 2)


@given(finished, st.sampled_from(Semconv))
def test_request_is_what_its_messages_would_be(
    request: FinishedRequest, semconv: Semconv
) -> None:
    """Any request's spans are those that the messages' own classes describe."""
    root, *children = map(Span.FromString, map(encode, spans_of(request, semconv)))

    assert len({span.span_id for span in (root, *children)}) == 1 + len(children)
    attributes = found_pairs(root)
    del root.attributes[:]
    assert attributes == pairs(expected_attributes(request, semconv))
    assert root == expected_root(request, semconv, root.span_id)
    ids = [child.span_id for child in children]
    assert children == list(expected_children(request, root, ids))


def expected_attributes(request: FinishedRequest, semconv: Semconv) -> Pairs:
    alone = Completions((request,))
    if semconv.has_genai or alone.is_rejected:
        yield from operation_attributes(alone, ORIGIN)
    if alone.is_rejected:
        return
    if semconv.has_genai:
        yield from genai_attributes(alone, "tiny")
        yield from hookline_attributes(alone, 2)
    if semconv.has_vllm:
        yield from vllm_attributes(alone)


def expected_root(request: FinishedRequest, semconv: Semconv, span_id: bytes) -> Span:
    """The request's span without its attributes."""
    places = request.times
    assert places is not None
    end = max(places.arrived, places.ended)
    is_error = request.reason in {FinishReason.ERROR, FinishReason.REJECTED}
    has_parent = bool(request.facts.trace_context)
    events = [("preempted", start) for start, _ in places.preempted]
    if places.first_token is not None:
        events.append(("first token", places.first_token))
    return Span(
        trace_id=bytes.fromhex(TRACE_ID),
        span_id=span_id,
        parent_span_id=bytes.fromhex(CLIENT_SPAN) if has_parent else b"",
        trace_state="vendor=1" if has_parent else "",
        flags=REMOTE if has_parent else LOCAL,
        name=f"{request.facts.operation} tiny" if semconv.has_genai else "llm_request",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=places.arrived,
        end_time_unix_nano=end,
        events=[
            Span.Event(name=name, time_unix_nano=clamped(at, places.arrived, end))
            for name, at in sorted(events, key=lambda event: event[1])
        ],
        status=Status(code=Status.STATUS_CODE_ERROR, message=cut(request.cause.label))
        if is_error
        else None,
    )


def expected_children(
    request: FinishedRequest, root: Span, ids: Iterable[bytes]
) -> Iterable[Span]:
    """Spans of the phases, inside the root."""
    assert request.times is not None
    for phase, span_id in zip(phases_of(request.times), ids, strict=True):
        low, high = root.start_time_unix_nano, root.end_time_unix_nano
        start = clamped(phase.start, low, high)
        yield Span(
            trace_id=root.trace_id,
            span_id=span_id,
            parent_span_id=root.span_id,
            trace_state=root.trace_state,
            flags=LOCAL,
            name=phase.name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=start,
            end_time_unix_nano=clamped(phase.end, start, high),
        )


def clamped(moment: int, low: int, high: int) -> int:
    return min(max(moment, low), high)


def test_envelope_holds_resource_scope_and_spans() -> None:
    """The request names who sends, with values of all kinds, and then the spans."""
    resource = resources.Resource(
        {"service.name": "a", "process.command_args": ["x", "y"], "cpus": 2},
        "https://resource",
    )
    scope = instrumentation.InstrumentationScope("name", "1", "https://scope")
    spans = [Span(name=name) for name in ("first", "second" * 99)]

    body = Envelope(resource, scope).wrap(span.SerializeToString() for span in spans)

    found = ExportTraceServiceRequest.FromString(body)
    (attributes,) = (item.resource.attributes for item in found.resource_spans)
    attributes.sort(key=lambda pair: pair.key)
    expected = ResourceSpans(
        resource=Resource(
            attributes=pairs(
                [
                    ("cpus", 2),
                    ("process.command_args", ("x", "y")),
                    ("service.name", "a"),
                ]
            )
        ),
        schema_url="https://resource",
        scope_spans=[
            ScopeSpans(
                scope=InstrumentationScope(name="name", version="1"),
                schema_url="https://scope",
                spans=spans,
            )
        ],
    )
    assert found == ExportTraceServiceRequest(resource_spans=[expected])


@pytest.mark.parametrize(
    ("state", "passed"),
    [
        ("", ""),
        ("a=1,b@c=x y,d=2", "a=1,b@c=x y,d=2"),
        ("a=é", ""),
        ("a=\ud800", ""),
        ("a=1\n", ""),
    ],
)
def test_trace_state_is_passed_on_whole_or_not_at_all(
    state: str, passed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has checked what clients write; a program's own facts may be wrong."""
    # The library logs what is wrong, which pytest-xdist cannot pass on.
    caplog.set_level(logging.ERROR, "opentelemetry.trace.span")
    headers = {"traceparent": f"00-{TRACE_ID}-{CLIENT_SPAN}-01", "tracestate": state}

    parent = find_parent(headers, int(TRACE_ID, 16))

    assert parent is not None
    assert parent.trace_state.to_header() == passed
