"""`/v1/messages` with what agents send beyond the documented parts of the API."""

import dataclasses
from typing import Any

import pytest

from hookline_server.ignored import IGNORED
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import MaxTokensPolicy, ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO: dict[str, object] = {"role": "user", "content": "Hi"}
BODY: dict[str, Any] = {"model": "fake", "max_tokens": 9, "messages": [HELLO]}
PARSERS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
BILLING = "x-anthropic-billing-header: cc_version=2.1.1; cc_entrypoint=cli; cch=0a1b2;"
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}


def engine_of(max_model_len: int = 1024) -> FakeEngine:
    engine = FakeEngine()
    model = dataclasses.replace(engine.facts.model, max_model_len=max_model_len)
    engine.facts = dataclasses.replace(engine.facts, model=model)
    return engine


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


async def exchanged(
    settings: ServerSettings = PARSERS, *, status: int = 200, **fields: Any
) -> tuple[FakeEngine, list[str]]:
    """Returns the engine after a request, and what its response says was ignored."""
    engine = engine_of()
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/messages", json={**BODY, **fields})
        assert response.status == status, await response.text()
        named = response.headers.get("X-Hookline-Ignored", "")
        assert client.app is not None
        counted = client.app[IGNORED].stats().elements
    assert all(api == "messages" for api, _, _ in counted)
    return engine, named.split(", ") if named else []


LEFT_OUT: list[tuple[list[dict[str, object]], list[dict[str, object]], list[str]]] = [
    (
        [HELLO, {"role": "assistant", "content": [{"type": "redacted_thinking"}]}],
        [{"role": "user", "content": "Hi"}],
        ["block.redacted_thinking"],
    ),
    (
        [
            HELLO,
            {
                "role": "assistant",
                "content": [
                    {"type": "server_tool_use", "id": "a", "name": "web_search"},
                    {"type": "web_search_tool_result", "content": {"type": "error"}},
                    text("It rains."),
                ],
            },
            HELLO,
        ],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "It rains."},
            {"role": "user", "content": "Hi"},
        ],
        ["block.server_tool_use", "block.web_search_tool_result"],
    ),
    (
        [
            HELLO,
            {"role": "assistant", "content": [{"type": "hologram", "text": {"a": 1}}]},
            {"role": "assistant", "content": []},
            {"role": "user", "content": [{"type": "container_upload"}, text("And?")]},
        ],
        [{"role": "user", "content": "Hi\nAnd?"}],
        ["block.hologram", "block.container_upload"],
    ),
    (
        [
            HELLO,
            {"role": "assistant", "content": [CALL]},
            {
                "role": "user",
                "content": [
                    {
                        **RESULT,
                        "content": [
                            {"type": "tool_reference", "tool_name": "mcp__a__b"},
                            {"type": "image", "source": {}},
                        ],
                    },
                    {"type": "thinking", "thinking": "not mine"},
                ],
            },
        ],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "f", "arguments": {}},
                    }
                ],
            },
            {
                "role": "tool",
                "content": "mcp__a__b\n"
                "[image: left out, as this model reads only text]",
                "tool_call_id": "toolu_1",
            },
        ],
        ["block.image", "block.thinking"],
    ),
]


@pytest.mark.parametrize(
    ("messages", "expected", "kinds"), LEFT_OUT, ids=range(len(LEFT_OUT))
)
async def test_blocks_that_cannot_be_used_are_left_out(
    messages: object, expected: object, kinds: list[str]
) -> None:
    """What remains is the conversation; a message without anything left is none."""
    engine, named = await exchanged(messages=messages)

    assert engine.chats == [expected]
    assert named == kinds


async def test_nothing_left_is_refused() -> None:
    """A prompt without any message would be another question."""
    upload = {"role": "user", "content": [{"type": "container_upload"}]}

    engine, named = await exchanged(messages=[upload], status=400)

    assert not engine.streams
    assert named == ["block.container_upload"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_an_image_that_was_answered_becomes_a_note(path: str) -> None:
    """Clients send it again with each turn; what is asked now is refused with one."""
    engine = engine_of()
    kind = "image" if path == "/v1/messages" else "image_url"
    seen = {"role": "user", "content": [{"type": kind, kind: {}}, text("What?")]}
    turns = [seen, {"role": "assistant", "content": "A hill."}, HELLO]

    async with client_of(engine) as client:
        accepted = await client.post(path, json={**BODY, "messages": turns})
        asked = await client.post(path, json={**BODY, "messages": [*turns[:2], seen]})

    note = f"[{kind}: left out, as this model reads only text]"
    assert (accepted.status, asked.status) == (200, 400)
    assert engine.chats[0][0]["content"] == f"{note}\nWhat?"


async def test_texts_of_documents_and_searches_are_read() -> None:
    """A document of text, and what a client's own search has found, are no media."""
    plain = {"type": "text", "media_type": "text/plain", "data": "Once."}
    blocks = {"type": "content", "content": [text("Upon.")]}
    found = {"type": "search_result", "source": "a.md", "title": "A", "content": []}
    content = [
        {"type": "document", "source": plain, "title": "Tale"},
        {"type": "document", "source": blocks},
        {**found, "content": [text("a time")]},
    ]

    engine, named = await exchanged(messages=[{"role": "user", "content": content}])

    assert engine.chats[0][0]["content"] == "Tale\nOnce.\nUpon.\nA\na.md\na time"
    assert named == []


async def test_blocks_in_blocks_are_texts_only() -> None:
    """However deep a client nests them, it costs no more than one level."""
    block = text("deep")
    for _ in range(200):
        block = {"type": "search_result", "title": "t", "content": [block]}

    engine, named = await exchanged(messages=[{"role": "user", "content": [block]}])

    assert engine.chats[0][0]["content"] == "t"
    assert named == ["block.search_result"]


async def test_system_messages_stand_anywhere() -> None:
    """Their blocks are texts; one that only directs the provider has none."""
    nested = {"type": "mid_conv_system", "content": [text("b"), text("c")]}
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}

    engine, named = await exchanged(
        messages=[
            {"role": "ctx", "content": "Hi"},
            {"role": "system", "content": [text("a"), nested, added]},
            {"role": "system", "content": [], "output_config": {"effort": "low"}},
            {"role": "assistant", "content": "So."},
            {"role": "msg", "content": "And?"},
            {"role": "developer", "content": "d"},
        ]
    )

    assert [(each["role"], each["content"]) for each in engine.chats[0]] == [
        ("user", "Hi"),
        ("system", "a\nb\nc"),
        ("assistant", "So."),
        ("user", "And?"),
        ("system", "d"),
    ]
    assert named == ["block.tool_addition"]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ([text(BILLING), text("Be brief.")], ["Be brief."]),
        (f"{BILLING}\n\nBe brief.", ["Be brief."]),
        (f"Be brief.\n{BILLING}", ["Be brief.\n"]),
        ([text(BILLING)], []),
        ("Ask for the x-anthropic-billing-header: none.", None),
    ],
)
async def test_lines_of_the_billing_header_are_dropped(
    system: object, expected: list[str] | None
) -> None:
    """They differ in each request, so that no prefix would be found in the cache."""
    engine, named = await exchanged(system=system)

    texts = [each["content"] for each in engine.chats[0] if each["role"] == "system"]
    assert texts == (expected if expected is not None else [system])
    assert named == ([] if expected is None else ["text.billing_header"])


async def test_billing_lines_of_chats_are_dropped() -> None:
    """As proxies turn one API into the other."""
    engine = FakeEngine()
    systems = [BILLING, f"{BILLING}\nBe brief."]
    messages = [{"role": "system", "content": each} for each in systems]

    async with client_of(engine) as client:
        body = {"model": "fake", "messages": [*messages, HELLO]}
        response = await client.post("/v1/chat/completions", json=body)

    assert engine.chats == [[{"role": "system", "content": "Be brief."}, HELLO]]
    assert response.headers["X-Hookline-Ignored"] == "text.billing_header"


async def test_tools_of_the_provider_are_left_out() -> None:
    """Those with a schema are functions, of which there may be many."""
    tool = {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True}
    tools = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "mcp_toolset", "mcp_server_name": "a"},
        *({**tool, "name": f"mcp__a__{number}"} for number in range(300)),
        {**tool, "type": "function"},
    ]

    engine, named = await exchanged(tools=tools, tool_choice={"type": "auto"})

    assert len(engine.variables[0]["tools"]) == 301  # type: ignore[arg-type]
    assert named == ["tool.web_search", "tool.mcp_toolset"]


async def test_fields_of_the_provider_are_named() -> None:
    """They change nothing of the prompt, nor of the parameters."""
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    fields: dict[str, Any] = {
        "metadata": {"user_id": "someone"},
        "service_tier": "auto",
        "container": {"skills": []},
        "mcp_servers": [{"type": "url", "url": "https://mcp.example.org"}],
        "context_management": edits,
        "betas": ["effort-2025-11-24"],
    }

    engine, named = await exchanged(**fields)
    plain, _ = await exchanged()

    assert named == [f"field.{name}" for name in fields]
    assert engine.streams[0].params == plain.streams[0].params
    assert engine.chats == plain.chats


async def test_effort_is_a_variable_of_the_template() -> None:
    """Templates know the words that chats use; others are not passed on."""
    known, _ = await exchanged(output_config={"effort": "high"})
    other, _ = await exchanged(output_config={"effort": "heroic"})

    assert known.variables == [{"reasoning_effort": "high"}]
    assert other.variables == [{}]


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (ServerSettings(), {}),
        (PARSERS, {"messages": [HELLO, {"role": "assistant", "content": "So"}]}),
    ],
)
async def test_reasoning_that_cannot_be_is_left_out(
    settings: ServerSettings, fields: dict[str, Any]
) -> None:
    """Without a parser it cannot be told from text; a begun reply has none."""
    thinking = {"type": "enabled", "budget_tokens": 1024}

    engine, named = await exchanged(settings, thinking=thinking, **fields)

    assert named == ["field.thinking"]
    assert engine.variables == [{}]
    assert not engine.streams[0].params.extra_args


@pytest.mark.parametrize("kind", ["adaptive", "heroic"])
async def test_the_model_decides_on_other_kinds_of_reasoning(kind: str) -> None:
    """Newer kinds of it are no reason to refuse a request."""
    thinking = {"type": kind, "display": "summarized", "budget_tokens": 5}

    engine, named = await exchanged(thinking=thinking)

    assert engine.variables == [{}]
    assert not engine.streams[0].params.extra_args
    assert named == []


@pytest.mark.parametrize(
    ("path", "policy", "expected"),
    [
        ("/v1/messages", None, 200),
        ("/v1/messages", MaxTokensPolicy.REFUSE, 400),
        ("/v1/chat/completions", None, 400),
        ("/v1/chat/completions", MaxTokensPolicy.CLAMP, 200),
    ],
)
async def test_max_tokens_beyond_the_context(
    path: str, policy: MaxTokensPolicy | None, expected: int
) -> None:
    """Agents ask for more than the context holds: it is shortened, or refused."""
    engine = engine_of(len("Hi\n>") + 12)
    settings = ServerSettings(max_tokens_policy=policy)

    async with client_of(engine, settings) as client:
        response = await client.post(path, json={**BODY, "max_tokens": 32_000})
        named = response.headers.get("X-Hookline-Ignored")

    assert response.status == expected
    if expected == 200:
        assert engine.streams[0].params.max_tokens == 12
        assert named == "limit.max_tokens"
    else:
        assert not engine.streams
        assert named is None
