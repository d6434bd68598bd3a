"""The two phases of a completion behind a route, and what goes through unchanged."""

import gzip
import json
import re
from pathlib import Path

import pytest

from hookline_faults.scripted_instances import (
    TRANSFER_PARAMS,
    FakeInstance,
    numbers_of,
    routed,
    transfer_id_of,
)

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, object]] = {
    COMPLETIONS: {"model": "m", "prompt": "Hello", "max_tokens": 7, "seed": 1},
    CHAT: {"model": "m", "messages": MESSAGES, "max_completion_tokens": 7},
}
ASKED = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("path", BODIES)
async def test_prefill_and_decode_run_on_different_instances(path: str) -> None:
    """The prefill instance makes one token; the decode instance gets its parameters."""
    prefill, decode = FakeInstance(), FakeInstance()
    body = {**BODIES[path], "stream": True, "min_tokens": 3, "n": 2, "unknown": [1.50]}
    options = {"stream_options": {"include_usage": True}}

    async with routed([prefill], [decode]) as client:
        response = await client.post(path, json={**body, **options})
        text = await response.read()
        returned = await numbers_of(client)

    assert text == b"".join(decode.pieces)
    [first], [second] = prefill.received, decode.received
    del body["min_tokens"], body["n"]
    asked = {**ASKED, "transfer_id": transfer_id_of(prefill)}
    ends = {"max_tokens": 1, "stream": False, "kv_transfer_params": asked}
    if path == CHAT:
        ends["max_completion_tokens"] = 1
    assert first.fields == {**body, **ends}
    more = {"min_tokens": 3, "n": 2, **options, "kv_transfer_params": TRANSFER_PARAMS}
    assert second.fields == {**body, **more}
    assert (first.target, second.target) == (path, path)
    assert returned["prefill_seconds_count"] == 1
    endpoint = "chat" if path == CHAT else "completions"
    assert returned[f'requests_total{{endpoint="{endpoint}",outcome="completed"}}'] == 1
    assert not [name for name in returned if "fallbacks" in name or "plain" in name]


async def test_headers_go_to_both() -> None:
    """Who asks, and its trace, go on; what belongs to the connection does not."""
    prefill, decode = FakeInstance(), FakeInstance()
    headers = {
        "Authorization": "Bearer key",
        "traceparent": PARENT,
        "tracestate": "a=b",
        "X-Request-Id": "mine",
        "Connection": "keep-alive, X-Hop",
        "X-Hop": "no",
        "TE": "trailers",
        "Accept-Encoding": "gzip",
    }

    async with routed([prefill], [decode]) as client:
        response = await client.post(
            f"{COMPLETIONS}?a=%20b", json=BODIES[COMPLETIONS], headers=headers
        )
        await response.read()

    for received in (prefill.received[0], decode.received[0]):
        for name in ("Authorization", "traceparent", "tracestate", "X-Request-Id"):
            assert received.headers[name] == headers[name]
        assert received.headers["Content-Type"] == "application/json"
        assert not {"X-Hop", "TE"} & received.headers.keys()
    assert decode.received[0].target == f"{COMPLETIONS}?a=%20b"
    assert decode.received[0].headers["Accept-Encoding"] == "gzip"
    assert response.headers["X-Request-Id"] == "mine"
    assert response.headers["X-Own"] == "kept"


async def test_own_key_goes_to_both_beside_the_clients() -> None:
    """It opens the metrics; what a client sends as the proxy's key is not passed on."""
    prefill, decode = FakeInstance(), FakeInstance()
    headers = {"Authorization": "Bearer client", "X-Hookline-Router-Key": "forged"}

    async with routed([prefill], [decode], instance_key="own") as client:
        await client.post(COMPLETIONS, json=BODIES[COMPLETIONS], headers=headers)

    for received in (prefill.received[0], decode.received[0]):
        assert received.headers["Authorization"] == "Bearer client"
        assert received.headers.getall("X-Hookline-Router-Key") == ["own"]
    assert prefill.looked_with == decode.looked_with == "Bearer own"


async def test_both_instances_know_one_id() -> None:
    """Without an id of the client's the route makes one."""
    prefill, decode = FakeInstance(), FakeInstance()

    async with routed([prefill], [decode]) as client:
        response = await client.post(COMPLETIONS, json=BODIES[COMPLETIONS])

    ids = {each.headers["X-Request-Id"] for each in prefill.received + decode.received}
    assert ids == {response.headers["X-Request-Id"]}


async def test_bytes_are_forwarded_as_they_arrive() -> None:
    """What the instance has sent is at the client before it makes the next piece."""
    decode = FakeInstance()
    decode.free_pieces = 1
    decode.gate.clear()

    async with routed([], [decode]) as client:
        response = await client.post(COMPLETIONS, json=BODIES[COMPLETIONS])
        first = await response.content.readany()
        decode.gate.set()
        rest = await response.read()

    assert [first, rest] == list(decode.pieces)


async def test_whole_answer_keeps_its_length() -> None:
    """A response that is not streamed keeps its Content-Length."""
    decode = FakeInstance()
    decode.pieces = (b'{"a": ', b"1}")

    async with routed([], [decode]) as client:
        response = await client.post(COMPLETIONS, json=BODIES[COMPLETIONS])
        body = await response.read()

    assert body == b'{"a": 1}'
    assert response.headers["Content-Length"] == "8"


async def test_compressed_answers_stay_so() -> None:
    """Client and instance have agreed on that."""
    decode = FakeInstance()
    decode.pieces = (gzip.compress(b'{"a": 1}'),)
    decode.headers = {"Content-Encoding": "gzip"}

    async with routed([], [decode]) as client:
        response = await client.post(COMPLETIONS, json=BODIES[COMPLETIONS])
        answer = await response.json(content_type=None)

    assert response.headers["Content-Encoding"] == "gzip"
    assert answer == {"a": 1}


@pytest.mark.parametrize("returned", [None, {}])
async def test_prefill_may_return_no_parameters(returned: object) -> None:
    """A connector that finds KV by content returns none; this is not a failure."""
    prefill, decode = FakeInstance(), FakeInstance()
    prefill.transfer_params = returned

    async with routed([prefill], [decode]) as client:
        await client.post(COMPLETIONS, json=BODIES[COMPLETIONS])
        numbers = await numbers_of(client)

    expected = BODIES[COMPLETIONS] if returned is None else None
    assert decode.received[0].fields == (
        expected or {**BODIES[COMPLETIONS], "kv_transfer_params": {}}
    )
    assert numbers["prefill_seconds_count"] == 1


@pytest.mark.parametrize("has_prefill", [False, True])
async def test_clients_cannot_set_transfer_parameters(*, has_prefill: bool) -> None:
    """Otherwise a client could make an instance fetch KV from any host."""
    prefill, decode = FakeInstance(), FakeInstance()
    own = {"do_remote_prefill": True, "remote_host": "evil"}

    async with routed([prefill] * has_prefill, [decode]) as client:
        body = {**BODIES[COMPLETIONS], "kv_transfer_params": own}
        await client.post(COMPLETIONS, json=body)

    if has_prefill:
        asked = {**ASKED, "transfer_id": transfer_id_of(prefill)}
        assert prefill.received[0].fields["kv_transfer_params"] == asked
    expected = TRANSFER_PARAMS if has_prefill else None
    assert decode.received[0].fields.get("kv_transfer_params") == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"prompt": ["a" * 9, "b" * 9]}, "several_prompts"),
        ({"prompt": [[1, 2, 3], [4, 5, 6]]}, "several_prompts"),
        ({"prompt": "a" * 9, "echo": True, "logprobs": 0}, "prompt_logprobs"),
        ({"prompt": "a" * 9, "prompt_logprobs": 0}, "prompt_logprobs"),
        ({"prompt": "a" * 9, "truncate_prompt_tokens": -1}, "truncated_prompt"),
        ({"prompt": "a" * 9, "truncate_prompt_tokens": "-1"}, "truncated_prompt"),
        ({"prompt": "a" * 7}, "short_prompt"),
        ({"prompt": [1]}, "short_prompt"),
        ({"prompt": [[1]]}, "short_prompt"),
        ({"prompt": {}}, "short_prompt"),
        ({}, "short_prompt"),
        ([], "not_json"),
        ("{", "not_json"),
        ({"prompt": "a" * 8}, None),
        ({"prompt": ["a" * 8]}, None),
        ({"prompt": [1, 2]}, None),
        ({"prompt": [[1, 2]]}, None),
    ],
)
async def test_some_prompts_skip_the_prefill_instance(
    body: object, reason: str | None
) -> None:
    """If a prefill would not help, the decode instance gets the unchanged request."""
    prefill, decode = FakeInstance(), FakeInstance()
    raw = b"{" if body == "{" else json.dumps(body, indent=1).encode()

    async with routed([prefill], [decode], prefill_min_characters=8) as client:
        response = await client.post(COMPLETIONS, data=raw)
        numbers = await numbers_of(client)

    assert response.status == 200
    assert bool(prefill.received) == (reason is None)
    if reason is not None:
        assert decode.received[0].body == raw
        assert numbers[f'plain_total{{reason="{reason}"}}'] == 1


@pytest.mark.parametrize(
    ("content", "is_short"),
    [
        ("a" * 8, False),
        ("a" * 7, True),
        ([{"type": "text", "text": "aaaa"}, {"text": "aaaa"}], False),
        ([{"type": "text", "text": "aaaa"}, {"text": 5}, 6], True),
    ],
)
async def test_chats_are_as_long_as_their_texts(
    content: object, *, is_short: bool
) -> None:
    """All messages together."""
    prefill, decode = FakeInstance(), FakeInstance()

    async with routed([prefill], [decode], prefill_min_characters=8) as client:
        messages = [{"role": "user", "content": content}, {"role": "user"}, 3]
        await client.post(CHAT, json={"messages": messages})

    assert bool(prefill.received) != is_short


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize?x=1"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/version"),
        ("DELETE", "/v1/anything/else"),
    ],
)
async def test_the_rest_goes_to_a_decode_instance(method: str, path: str) -> None:
    """Whole, and answered by it."""
    prefill, decode = FakeInstance(), FakeInstance()
    decode.pieces = (b"{}",)

    async with routed([prefill], [decode]) as client:
        response = await client.request(method, path, data=b"body")
        body = await response.read()

    assert body == b"{}"
    [received] = decode.received
    assert (received.method, received.target, received.body) == (method, path, b"body")
    assert not prefill.received


async def test_unknown_paths_are_the_routes_own_404() -> None:
    """An instance's other pages cannot be reached through the proxy."""
    decode = FakeInstance()

    async with routed([], [decode]) as client:
        response = await client.post("/reset_prefix_cache")
        answer = await response.json()

    assert (response.status, answer["error"]["code"]) == (404, "route_not_found")
    assert not decode.received


async def test_metrics_are_documented() -> None:
    """Every name and every value of a label stands in docs/disaggregation.md."""
    docs = Path(__file__).parents[3] / "docs" / "disaggregation.md"
    text = docs.read_text("utf-8")

    async with routed([FakeInstance()], [FakeInstance()]) as client:
        page = await (await client.get("/metrics")).text()

    names = re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)
    values = re.findall(r'(?:reason|outcome)="([^"]+)"', page)
    assert len(names) == 14
    assert not [each for each in {*names, *values} if f"`{each}`" not in text]
