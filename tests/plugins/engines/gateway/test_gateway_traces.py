"""Traces of a gateway, as a collector gets them."""

import asyncio

import pytest

from hookline.config.observers import ObserverConfig
from hookline_faults.otlp import Inbox, Receiver
from hookline_faults.scripted_gateway import CHAT, gateway, stream, usage
from hookline_faults.scripted_instances import FakeInstance
from hookline_otel.endpoint import OtlpProtocol

TRACE_ID, CLIENT_SPAN = "a" * 32, "b" * 16


@pytest.mark.parametrize("is_whole", [True, False])
async def test_span_is_between_the_clients_and_the_upstreams(*, is_whole: bool) -> None:
    """With what the answer has told; a broken one is an error."""
    instance = FakeInstance()
    instance.pieces = stream("a", "b", used=usage(3, 2))
    instance.cut_after = None if is_whole else 2
    body = {"model": "m", "messages": [], "stream": True}
    parent = {"traceparent": f"00-{TRACE_ID}-{CLIENT_SPAN}-01"}
    with Receiver(OtlpProtocol.HTTP) as receiver:
        options = {"traces_endpoint": receiver.url, "protocol": receiver.protocol}
        observers = ObserverConfig(options={"otel": options}, trace_ratio=1.0)
        async with gateway(instance, observers=observers) as client:
            await (await client.post(CHAT, json=body, headers=parent)).read()
            await asyncio.to_thread(receiver.inbox.wait_for, _has_a_span)
        spans = receiver.inbox.spans

    ours = [each for each in spans if each.trace_id.hex() == TRACE_ID]
    [root] = [each for each in ours if each.parent_span_id.hex() == CLIENT_SPAN]
    passed_on = instance.received[0].headers["traceparent"]
    assert passed_on.split("-")[1:3] == [TRACE_ID, root.span_id.hex()]
    told = {each.key: each.value.int_value for each in root.attributes}
    assert told.get("gen_ai.usage.output_tokens") == (2 if is_whole else None)
    assert (root.status.code == root.status.STATUS_CODE_ERROR) is not is_whole


def _has_a_span(inbox: Inbox) -> bool:
    return any(each.trace_id.hex() == TRACE_ID for each in inbox.spans)
