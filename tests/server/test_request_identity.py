"""Request ids and trace headers."""

import pytest

from hookline_server.trace_rules import trace_rules
from hookline_testing.scripted_server import FakeEngine, client_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("abc-1.2_3:4", "abc-1.2_3:4"), ("a b<c>", "abc"), ("x" * 500, "x" * 128)],
)
async def test_clients_id_is_cleaned_and_echoed(given: str, expected: str) -> None:
    """
    The client's id, cleaned, is the answer's id, its header, and the engine's fact.
    """
    engine = FakeEngine()
    body = {"model": "fake", "prompt": "a"}

    async with client_of(engine) as client:
        response = await client.post(
            "/v1/completions", json=body, headers={"X-Request-Id": given}
        )
        answer = await response.json()

    assert answer["id"] == f"cmpl-{expected}"
    assert response.headers["X-Request-Id"] == expected
    assert engine.streams[0].facts.client_id == expected


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
    ],
)
async def test_observers_know_the_response_s_id(
    path: str, asked: dict[str, object], is_streamed: bool
) -> None:
    """
    The engine's facts have the id that the client reads in its response.
    """
    engine = FakeEngine()
    body = {"model": "fake", "stream": is_streamed, **asked}

    async with client_of(engine) as client:
        response = await client.post(path, json=body)
        text = await response.text()

    found = engine.streams[0].facts.response_id
    assert f'"id":"{found}"' in text
    assert found != engine.streams[0].facts.client_id


async def test_a_missing_id_is_generated() -> None:
    """
    Requests without an id, or with an unusable one, get ids of their own.
    """
    async with client_of(FakeEngine()) as client:
        first = await client.get("/nope")
        second = await client.get("/health", headers={"X-Request-Id": "<>"})

    ids = [first.headers["X-Request-Id"], second.headers["X-Request-Id"]]
    assert all(len(each) == 32 for each in ids)
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {}),
        ({"traceparent": PARENT}, {"traceparent": PARENT}),
        (
            {"traceparent": PARENT, "tracestate": "a=1"},
            {"traceparent": PARENT, "tracestate": "a=1"},
        ),
        ({"traceparent": PARENT, "tracestate": "é"}, {"traceparent": PARENT}),
        ({"traceparent": PARENT, "tracestate": "x" * 600}, {"traceparent": PARENT}),
        ({"tracestate": "a=1"}, {}),
        ({"traceparent": "junk"}, {}),
        ({"traceparent": PARENT.upper()}, {}),
        ({"traceparent": f"ff{PARENT[2:]}"}, {}),
        ({"traceparent": f"00-{'0' * 32}-b7ad6b7169203331-01"}, {}),
        ({"traceparent": f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01"}, {}),
    ],
)
def test_only_valid_trace_headers_are_carried(
    headers: dict[str, str], expected: dict[str, str]
) -> None:
    """
    Trace headers are carried where the W3C's format is kept, else dropped.
    """
    assert trace_rules().trace_of(headers).context == expected


async def test_trace_headers_reach_the_engine() -> None:
    """
    The trace context stands in the facts of the request.
    """
    engine = FakeEngine()
    body = {"model": "fake", "prompt": "a"}

    async with client_of(engine) as client:
        await client.post("/v1/completions", json=body, headers={"traceparent": PARENT})

    assert engine.streams[0].facts.trace_context == {"traceparent": PARENT}
