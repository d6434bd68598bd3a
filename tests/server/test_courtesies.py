"""What clients send that is a little different, and is understood nevertheless."""

import gzip
import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline_server.app import create_app
from hookline_server.replies.settings import ReplySettings
from hookline_server.respelling import fixed_paths, meant_path
from hookline_server.settings import ServerSettings
from hookline_server.sites import around
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
BOM = b"\xef\xbb\xbf"
PATHS = frozenset(
    {"/health/live", "/v1/chat/completions", "/v1/completions", "/v1/models", "/load"}
)
MEANT: dict[str, str | None] = {
    "/v1/chat/completions/": "/v1/chat/completions",
    "//v1/chat/completions": "/v1/chat/completions",
    "//v1//chat///completions//": "/v1/chat/completions",
    "/v1/v1/chat/completions": "/v1/chat/completions",
    "/chat/completions": "/v1/chat/completions",
    "/chat/completions/": "/v1/chat/completions",
    "/chat/completion": "/v1/chat/completions",
    "/v1/completion": "/v1/completions",
    "/completion": "/v1/completions",
    "/models": "/v1/models",
    "/v1/models/": "/v1/models",
    "//v1/models/a/b": "/v1/models/a/b",
    "/load/": "/load",
    "/": "/health/live",
    "//": "/health/live",
    "/v1/": "/health/live",
    "/v1/models": None,
    "/v1/models/a/b": None,
    "/v1/load": None,
    "/nothing/": None,
    "/v2/completions": None,
}


def test_paths_mean_what_they_resemble() -> None:
    """
    Slashes too many, and the version missing or twice; nothing else.
    """
    faults = {
        path: found
        for path, expected in MEANT.items()
        if (found := meant_path(path, PATHS)) != expected
    }

    assert not faults


async def test_odd_paths_are_served_as_their_own() -> None:
    """
    With their query and body, in their API's own form, behind the same key; only what
    is known to exist has no 404.
    """
    engine = FakeEngine()
    app = create_app(engine, ServerSettings(api_key="k"))
    server = TestServer(app)
    await server.start_server()
    assert server.handler is not None
    paths = fixed_paths(app.router.resources())
    server.handler.request_handler = around(server.handler.request_handler, paths)
    key = {"Authorization": "Bearer k"}
    body = {"messages": HELLO, "max_tokens": 9}
    async with TestClient(server) as client:
        doubled = f"{server.make_url('/')}/v1/messages/"
        found = [
            (await client.post("/chat/completions", json=body, headers=key)).status,
            (await client.session.post(doubled, json=body, headers=key)).status,
            (await client.post("/completion", json={"prompt": "a"})).status,
            (await client.get("/models/?x=1", headers=key)).status,
            (await client.head("/")).status,
            (await client.get("/unknown/", headers=key)).status,
        ]
        refused = await client.post("/messages", json={**body, "max_tokens": 0})
        error = await refused.json()

    assert found == [200, 200, 401, 200, 200, 404]
    assert error["type"] == "error"
    assert [each.facts.operation for each in engine.streams] == ["chat", "chat"]


@pytest.mark.parametrize("is_zipped", [False, True])
async def test_a_byte_order_mark_before_json_is_skipped(is_zipped: bool) -> None:
    """
    Programs of Windows write it; fields beside it count as ever.
    """
    data = BOM + json.dumps({"prompt": "ab", "max_tokens": "3"}).encode()
    headers = {"Content-Type": "application/json"}
    if is_zipped:
        data, headers["Content-Encoding"] = gzip.compress(data), "gzip"

    engine = FakeEngine()
    async with client_of(engine) as client:
        response = await client.post("/v1/completions", data=data, headers=headers)

    assert response.status == 200
    assert engine.streams[0].params.max_tokens == 3


async def test_a_tool_may_return_nothing() -> None:
    """
    As null, or by no content at all; other messages need some.
    """
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    history = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
    results: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "c1", "content": None},
        {"role": "tool", "tool_call_id": "c1"},
    ]
    engine = FakeEngine()
    async with client_of(engine) as client:
        statuses = [
            (
                await client.post(
                    "/v1/chat/completions", json={"messages": [*history, result]}
                )
            ).status
            for result in (*results, {"role": "user", "content": None})
        ]

    assert statuses == [200, 200, 400]
    assert [messages[-1]["content"] for messages in engine.chats] == ["", ""]


async def test_no_likely_tokens_need_no_log_probabilities() -> None:
    """
    `top_logprobs: 0` asks for nothing; a number does.
    """
    async with client_of(FakeEngine()) as client:
        found = {}
        for count in (0, 1):
            body = {"messages": HELLO, "top_logprobs": count}
            response = await client.post("/v1/chat/completions", json=body)
            found[count] = response.status, await response.json()

    assert [status for status, _ in found.values()] == [200, 400]
    assert found[0][1]["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("header", ["x-api-key", "api-key", "Api-Key"])
async def test_keys_come_in_other_headers(header: str) -> None:
    """
    Anthropic's and Azure's; a bearer token prevails.
    """
    settings = ServerSettings(api_key="k")
    stolen = {"Authorization": "Bearer stolen"}
    async with client_of(FakeEngine(), settings) as client:
        statuses = [
            (await client.get("/v1/models", headers=headers)).status
            for headers in ({header: "k"}, {header: "no"}, {header: "k", **stolen})
        ]

    assert statuses == [200, 401, 401]


SWITCHES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"enable_thinking": False}, {"on": False}),
    ({"enable_thinking": "true"}, {"on": True}),
    ({"think": False}, {"on": False}),
    ({"think": "low"}, {"on": True, "effort": "low"}),
    ({"thinking": {"type": "disabled"}}, {"on": False}),
    ({"thinking": {"type": "enabled", "budget_tokens": 7}}, {"on": True, "budget": 7}),
    ({"thinking": {"type": "adaptive"}}, {}),
    ({"thinking": True, "thinking_budget": 5}, {"on": True, "budget": 5}),
    ({"reasoning": {"enabled": False}}, {"on": False}),
    (
        {"reasoning": {"effort": "high", "max_tokens": 9}},
        {"effort": "high", "budget": 9},
    ),
    ({"reasoning": {"effort": "none"}}, {"on": False, "effort": "none"}),
    ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, {"effort": "high"}),
    (
        {"think": True, "chat_template_kwargs": {"enable_thinking": False}},
        {"enable_thinking": False, "thinking": True},
    ),
    ({"think": True, "thinking": {"type": "enabled"}}, {"on": True}),
]


async def test_switches_of_reasoning_are_obeyed_by_any_name() -> None:
    """
    The template and the limit of reasoning get what the client means; this server's own
    names prevail.
    """
    faults = []
    for fields, expected in SWITCHES:
        engine = FakeEngine()
        async with client_of(engine) as client:
            body = {"messages": HELLO, **fields}
            response = await client.post("/v1/chat/completions", json=body)
            assert response.status == 200, await response.text()
        found: dict[str, Any] = dict(engine.variables[0])
        if found.get("enable_thinking") is found.get("thinking") is not None:
            found["on"] = found.pop("enable_thinking")
            del found["thinking"]
        if "reasoning_effort" in found:
            found["effort"] = found.pop("reasoning_effort")
        budget = engine.streams[0].params.extra_args.get("thinking_token_budget")
        if budget is not None:
            found["budget"] = budget
        if found != expected:
            faults.append((fields, found))

    assert not faults


async def test_reasoning_may_be_hidden_and_switches_must_make_sense() -> None:
    """
    `exclude` hides it; switches that contradict each other, or mean nothing, are a 400.
    """
    refused: list[dict[str, Any]] = [
        {"think": True, "enable_thinking": False},
        {"thinking": {"type": "perhaps"}},
        {"reasoning": 7},
        {"think": "perhaps"},
    ]
    hidden = {"messages": HELLO, "reasoning": {"exclude": True}}
    settings = ServerSettings(replies=ReplySettings(reasoning_parser="qwen3"))
    async with client_of(FakeEngine(["<think>a</think>b"]), settings) as client:
        whole = await (await client.post("/v1/chat/completions", json=hidden)).json()
        statuses = [
            (
                await client.post(
                    "/v1/chat/completions", json={"messages": HELLO, **fields}
                )
            ).status
            for fields in refused
        ]

    message = whole["choices"][0]["message"]
    assert message["content"] == "b"
    assert "reasoning_content" not in message
    assert statuses == [400] * len(refused)
