"""The proxy's spans: parents of those of both instances, in their clients' traces."""

import asyncio
from dataclasses import dataclass, field

import pytest

from hookline.exceptions import ConfigError
from hookline_faults.otlp import Inbox, Receiver, draw
from hookline_faults.scripted_instances import FakeInstance, numbers_of, routed
from hookline_otel.endpoint import OtlpProtocol
from hookline_pd_proxy import tracing
from hookline_pd_proxy.settings import RouteSettings
from hookline_pd_proxy.tracing import FinishedSpan, Tracing
from hookline_server.trace_rules import TraceRules

PATH = "/v1/completions"
BODY = {"model": "m", "prompt": "Hello", "max_tokens": 7}
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
CLIENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE_ID}-b7ad6b7169203331-00"


@dataclass
class Spans:
    """Keeps spans in place of a collector."""

    spans: list[FinishedSpan] = field(default_factory=list)

    def offer(self, span: FinishedSpan) -> None:
        self.spans.append(span)

    def close(self, seconds: float) -> None:
        """Has nothing to send."""


@pytest.mark.parametrize(
    ("sent", "ratio", "is_traced"),
    [(CLIENT, 0.0, True), (None, 1.0, True), (None, 0.0, False), (UNSAMPLED, 1, False)],
)
async def test_both_instances_get_the_proxys_span_as_their_parent(
    sent: str | None, ratio: float, *, is_traced: bool
) -> None:
    """In the client's trace, by its decision; an untraced request's go on unchanged."""
    prefill, decode, sender = FakeInstance(), FakeInstance(), Spans()
    headers = {"tracestate": "a=b"} | ({} if sent is None else {"traceparent": sent})

    async with routed([prefill], [decode], Tracing(sender, ratio)) as client:
        response = await client.post(PATH, json=BODY, headers=headers)
        await response.read()

    received = [each.received[0].headers for each in (prefill, decode)]
    parents = [each.getall("traceparent", []) for each in received]
    if not is_traced:
        assert [each["tracestate"] for each in received] == ["a=b"] * 2
        assert parents == [[] if sent is None else [sent]] * 2
        assert not sender.spans
        return
    [span] = sender.spans
    assert parents == [[f"00-{span.trace_id}-{span.span_id}-01"]] * 2
    states = [each.get("tracestate") for each in received]
    assert states == [None if sent is None else "a=b"] * 2  # none without a parent
    assert (span.trace_id == TRACE_ID) == (sent is not None)
    assert [name for name, *_ in span.phases] == ["prefill", "decode"]
    assert (span.status, span.outcome, span.instance) == (
        200,
        "completed",
        decode.url[7:],
    )


async def test_instances_get_the_headers_that_the_propagators_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As clients that speak B3 send them."""
    rules = TraceRules.of({"OTEL_PROPAGATORS": "b3"})
    monkeypatch.setattr(tracing, "trace_rules", lambda: rules)
    decode, sender = FakeInstance(), Spans()
    headers = {"b3": f"{TRACE_ID}-b7ad6b7169203331-1", "traceparent": UNSAMPLED}

    async with routed([], [decode], Tracing(sender, 0.0)) as client:
        response = await client.post(PATH, json=BODY, headers=headers)
        await response.read()

    [span] = sender.spans
    received = decode.received[0].headers
    assert received.getall("b3") == [f"{TRACE_ID}-{span.span_id}-1"]
    assert "traceparent" not in received


def has_all(inbox: Inbox) -> bool:
    """The span of a request and those of its phases."""
    return len(inbox.spans) >= 3


@pytest.mark.parametrize("protocol", OtlpProtocol)
async def test_collector_gets_the_spans(
    protocol: OtlpProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the protocol that the standard environment variables name."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol.value)
    prefill, decode = FakeInstance(), FakeInstance()
    decode.status = 500

    with Receiver(protocol) as receiver:
        url = receiver.url
        async with routed([prefill], [decode], otlp_traces_endpoint=url) as client:
            headers = {"traceparent": CLIENT}
            await client.post(PATH, json=BODY, headers=headers)
            await asyncio.to_thread(receiver.inbox.wait_for, has_all)
        spans = receiver.inbox.spans

    assert {each.trace_id.hex() for each in spans} == {TRACE_ID}
    [root] = [each for each in spans if each.name == f"POST {PATH}"]
    assert root.parent_span_id.hex() == "b7ad6b7169203331"
    assert root.status.message == "failed"
    phases = {each.name: each for each in spans if each.parent_span_id == root.span_id}
    assert set(phases) == {"prefill", "decode"}
    [link] = phases["decode"].links
    assert link.span_id == phases["prefill"].span_id
    assert link.trace_id.hex() == TRACE_ID
    assert not phases["prefill"].links
    assert draw(spans)


def test_invalid_collector_is_refused() -> None:
    """Before anything is served."""
    settings = RouteSettings(decode=["http://a:1"], otlp_traces_endpoint="ftp://a")

    with pytest.raises(ConfigError, match="ftp"):
        Tracing.of(settings)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_clients_time_to_first_token_is_measured(*, is_stream: bool) -> None:
    """Of streams, up to the first event that is no comment; of nothing else."""
    prefill, decode = FakeInstance(), FakeInstance()
    decode.pieces = (b'data: {"a": 1}\n\n',) if is_stream else (b'{"a": 1}',)

    async with routed([prefill], [decode]) as client:
        response = await client.post(PATH, json=BODY)
        await response.read()
        numbers = await numbers_of(client)

    name = "time_to_first_token_seconds_count"
    assert numbers.get(name, 0) == is_stream
