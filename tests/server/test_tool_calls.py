"""Calls and reasoning in replies, whole and streamed, above a scripted engine."""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from hookline.exceptions import ConfigError
from hookline.request import FinishReason
from hookline_server.context import PARSERS
from hookline_server.replies import parsers
from hookline_server.replies.settings import ReplySettings
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
HERMES = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
THOUGHT = ("<th", "ink>\nHm.", "\n</think>", "\n\n")
CALLS = (
    *("I ", "look. <too", 'l_call>{"name": ', '"f", "arguments": {"a": "', 'b"}'),
    *('}</tool_call>\n<tool_call>{"name": "g"}</tool_', "call>"),
)


def engine_of(*script: str, reason: FinishReason = FinishReason.STOP) -> FakeEngine:
    return FakeEngine(script, finish_reason=reason)


async def answered(
    engine: FakeEngine, settings: ServerSettings = HERMES, **fields: Any
) -> Any:
    body = {"model": "fake", "messages": HELLO, **fields}
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/chat/completions", json=body)
        answer = await response.json()
        assert response.status == fields.get("status", 200), answer
        return answer


async def streamed(
    engine: FakeEngine, settings: ServerSettings = HERMES, **fields: Any
) -> list[Any]:
    body = {"model": "fake", "messages": HELLO, "stream": True, **fields}
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/chat/completions", json=body)
        assert response.status == 200, await response.text()
        events = (await response.text()).strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def deltas(chunks: Sequence[Any]) -> list[Any]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


async def test_whole_answer_has_calls() -> None:
    """
    Each has an id, the content is what is beside them, and the reason is its own.
    """
    answer = await answered(engine_of(*CALLS), tools=TOOLS)

    [choice] = answer["choices"]
    ids = [call.pop("id") for call in choice["message"]["tool_calls"]]
    assert choice["message"] == {
        "role": "assistant",
        "content": "I look.",
        "refusal": None,
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}},
            {"type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert choice["finish_reason"] == "tool_calls"
    assert all(re.fullmatch("call_[0-9a-f]{24}", each) for each in ids)
    assert len(set(ids)) == 2


async def test_content_beside_nothing_else_is_null() -> None:
    """
    A reply that is all calls has no content.
    """
    answer = await answered(engine_of("\n<too", *CALLS[2:]), tools=TOOLS)

    [choice] = answer["choices"]
    assert choice["message"]["content"] is None
    assert len(choice["message"]["tool_calls"]) == 2


async def test_streamed_calls_have_their_parts_in_order() -> None:
    """
    Id, type and name are in a call's first delta only, arguments in pieces.
    """
    chunks = await streamed(engine_of(*CALLS), tools=TOOLS)

    role, *parts, last = deltas(chunks)
    assert role == {"role": "assistant", "content": ""}
    assert last == {}
    texts = [part["content"] for part in parts if "content" in part]
    calls = [call for part in parts for call in part.get("tool_calls", [])]
    assert texts == ["I", " look."]
    assert [call["index"] for call in calls] == [0, 0, 0, 1, 1]
    firsts = [call for call in calls if "id" in call]
    assert [(call["index"], call["type"], call["function"]) for call in firsts] == [
        (0, "function", {"name": "f", "arguments": ""}),
        (1, "function", {"name": "g", "arguments": ""}),
    ]
    assert [call["function"]["arguments"] for call in calls] == [
        *("", '{"a": "', 'b"}', "", "{}"),
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_calls_that_are_not_parallel_are_one(is_streamed: bool) -> None:
    """
    With `parallel_tool_calls: false` those behind the first are left out.
    """
    fields: dict[str, Any] = {"tools": TOOLS, "parallel_tool_calls": False}
    if is_streamed:
        parts = deltas(await streamed(engine_of(*CALLS), **fields))
        calls = [call for part in parts for call in part.get("tool_calls", [])]
        assert {call["index"] for call in calls} == {0}
    else:
        answer = await answered(engine_of(*CALLS), **fields)
        assert len(answer["choices"][0]["message"]["tool_calls"]) == 1


async def test_former_names_get_the_former_answer() -> None:
    """
    With `functions` the one call is `function_call`, streamed or not.
    """
    functions = [tool["function"] for tool in TOOLS]

    answer = await answered(engine_of(*CALLS), functions=functions)
    chunks = await streamed(engine_of(*CALLS), functions=functions)

    [choice] = answer["choices"]
    assert choice["finish_reason"] == "function_call"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["function_call"] == {
        "name": "f",
        "arguments": '{"a": "b"}',
    }
    calls = [
        part["function_call"] for part in deltas(chunks) if "function_call" in part
    ]
    assert calls[0] == {"name": "f", "arguments": ""}
    assert "".join(call["arguments"] for call in calls) == '{"a": "b"}'


async def test_a_reply_that_was_cut_short_says_so() -> None:
    """
    Its calls may be incomplete, if valid: the finish reason stays `length`.
    """
    engine = engine_of(*CALLS[:-3], reason=FinishReason.LENGTH)

    [choice] = (await answered(engine, tools=TOOLS))["choices"]

    assert choice["finish_reason"] == "length"
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"a": ""}'


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (("I look. ", "<tool", '_call>{"name": "f', '", "argum'), ["f"]),
        (("I look. ", "<tool", '_call>{"na'), []),
        (("I look. ", "<tool_c"), []),
    ],
)
async def test_no_markup_is_content_where_a_reply_was_cut_short(
    script: tuple[str, ...], names: list[str]
) -> None:
    """
    Whole and streamed; a call that has its name is one, without arguments.
    """
    fields: dict[str, Any] = {"tools": TOOLS}
    engines = [engine_of(*script, reason=FinishReason.LENGTH) for _ in range(2)]

    [choice] = (await answered(engines[0], **fields))["choices"]
    parts = deltas(await streamed(engines[1], **fields))

    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].rstrip() == "I look."
    calls = choice["message"].get("tool_calls", [])
    assert [each["function"]["name"] for each in calls] == names
    assert all(each["function"]["arguments"] == "{}" for each in calls)
    content = "".join(each.get("content") or "" for each in parts)
    assert content == choice["message"]["content"]
    pieces = [call["function"] for each in parts for call in each.get("tool_calls", ())]
    assert [each["name"] for each in pieces if "name" in each] == names
    assert "".join(each["arguments"] for each in pieces) == "{}" * len(names)


async def test_text_is_content_without_tools() -> None:
    """
    Only requests with tools have calls; others get the text as it is.
    """
    cases: tuple[dict[str, Any], ...] = ({}, {"tools": TOOLS, "tool_choice": "none"})
    for fields in cases:
        engine = engine_of(*CALLS)
        [choice] = (await answered(engine, **fields))["choices"]

        assert choice["message"]["content"] == "".join(CALLS)
        assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_special_tokens_are_in_the_text_for_parsers(is_streamed: bool) -> None:
    """
    The markers of most formats are special tokens.
    """
    engine = engine_of("a")

    await (streamed if is_streamed else answered)(engine, tools=TOOLS)
    await answered(engine, ServerSettings(), stop=["b"])

    kept = [stream.params.skip_special_tokens for stream in engine.streams]
    assert kept == [False, True]


async def test_reasoning_is_separate() -> None:
    """
    By both names, with its tokens in the usage, and before the calls.
    """
    answer = await answered(engine_of(*THOUGHT, *CALLS), tools=TOOLS)

    message = answer["choices"][0]["message"]
    assert (message["reasoning_content"], message["reasoning"]) == ("Hm.", "Hm.")
    assert message["content"] == "I look."
    assert len(message["tool_calls"]) == 2
    details = answer["usage"]["completion_tokens_details"]
    assert details == {"reasoning_tokens": len("\nHm.\n</think") + 1}


async def test_streamed_reasoning_is_separate() -> None:
    """
    It comes in deltas of its own; the usage counts its tokens.
    """
    chunks = await streamed(
        engine_of(*THOUGHT, "Yes", "."), stream_options={"include_usage": True}
    )

    parts = deltas(chunks)
    reasoning = [part["reasoning_content"] for part in parts if "reasoning" in part]
    assert reasoning == ["Hm."]
    assert "".join(part.get("content", "") for part in parts) == "Yes."
    details = chunks[-1]["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] > 0


async def test_reasoning_can_be_left_out() -> None:
    """
    With `include_reasoning: false` it is neither in the answer nor in the content.
    """
    fields: dict[str, Any] = {"include_reasoning": False}

    answer = await answered(engine_of(*THOUGHT, "Yes"), **fields)
    chunks = await streamed(engine_of(*THOUGHT, "Yes"), **fields)

    message = answer["choices"][0]["message"]
    assert message["content"] == "Yes"
    assert not {"reasoning", "reasoning_content"} & set(message)
    assert all("reasoning" not in part for part in deltas(chunks))


async def test_reply_that_is_all_reasoning_has_no_content() -> None:
    """
    As when its length ended it.
    """
    engine = engine_of(*THOUGHT[:2], reason=FinishReason.LENGTH)

    [choice] = (await answered(engine))["choices"]

    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning"] == "Hm."


async def test_each_choice_is_read_by_itself() -> None:
    """
    The calls of two choices do not mix, and their indices begin at 0.
    """
    chunks = await streamed(engine_of(*CALLS), tools=TOOLS, n=2)

    for index in (0, 1):
        calls = [
            call
            for chunk in chunks
            for choice in chunk["choices"]
            if choice["index"] == index
            for call in choice["delta"].get("tool_calls", [])
        ]
        assert [call["function"].get("name") for call in calls if "id" in call] == [
            "f",
            "g",
        ]


async def test_every_token_of_a_call_has_its_logprobs() -> None:
    """
    No entry is lost with text that is kept back, nor told twice.
    """
    chunks = await streamed(engine_of(*CALLS), tools=TOOLS, logprobs=True)

    entries = [
        entry["token"]
        for chunk in chunks
        for choice in chunk["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert "".join(entries) == "".join(CALLS)


async def test_every_token_of_a_call_has_its_id() -> None:
    """
    No id is lost with text that is kept back, nor told twice.
    """
    chunks = await streamed(engine_of(*CALLS), tools=TOOLS, return_token_ids=True)

    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    token_ids = [one for choice in choices for one in choice.get("token_ids", ())]
    assert "".join(map(chr, token_ids)) == "".join(CALLS)


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(),
        ServerSettings(
            replies=ReplySettings(
                tool_call_parser="hermes", enable_auto_tool_choice=False
            )
        ),
    ],
)
async def test_tools_need_a_parser(settings: ServerSettings) -> None:
    """
    Without one a request with tools is a 400 that names the option.
    """
    body = {"model": "fake", "messages": HELLO, "tools": TOOLS}
    async with client_of(FakeEngine(), settings) as client:
        response = await client.post("/v1/chat/completions", json=body)
        error = (await response.json())["error"]

    assert response.status == 400
    assert error["param"] == "tools"
    assert "--tool-call-parser" in error["message"]


def test_auto_tool_choice_needs_a_parser() -> None:
    """
    An option that could do nothing is refused.
    """
    with pytest.raises(ConfigError, match="requires tool-call-parser"):
        ReplySettings(enable_auto_tool_choice=True)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"tool_call_parser": "hermse"}, "tool-call-parser"),
        ({"reasoning_parser": "none"}, "reasoning-parser"),
    ],
)
def test_unknown_parser_ends_the_start(options: dict[str, str], option: str) -> None:
    """
    The error names the option.
    """
    with pytest.raises(ConfigError) as caught:
        parsers.choose_parsers(ReplySettings(**options))  # type: ignore[arg-type]

    assert caught.value.option == option


class Broken:
    """A parser that fails as it is told to."""

    needs_special_tokens = False

    def __init__(self, how: str) -> None:
        self._how = how
        self._pushed = 0

    def push(self, text: str) -> Any:
        self._pushed += 1
        if self._pushed < 3:
            return [] if self._pushed == 2 else [Content(text)]
        wrong: dict[str, Callable[[], object]] = {
            "raises": lambda: 1 / 0,
            "exits": lambda: sys.exit(3),
            "returns none": lambda: None,
            "returns text": lambda: text,
            "returns others": lambda: [text],
            "returns numbers": lambda: [Content(5)],  # type: ignore[arg-type]
            "begins late": lambda: [CallArguments("{}")],
            "has no name": lambda: [CallBegun(None)],  # type: ignore[arg-type]
        }
        return wrong[self._how]()

    def finish(self) -> Any:
        return []


def install(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Broken]) -> None:
    """Installs a parser by any name."""

    def hook_of(*_: object) -> Callable[[object], Broken]:
        return lambda context: make()  # noqa: ARG005 - the hook's argument

    monkeypatch.setattr(parsers, "hook_of", hook_of)


HOWS = (
    *("raises", "exits", "returns none", "returns text", "returns others"),
    *("returns numbers", "begins late", "has no name"),
)


@pytest.mark.parametrize("how", HOWS)
async def test_broken_parser_fails_no_reply(
    how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    All text is content, whatever the parser has kept back; it is logged and counted.
    """
    install(monkeypatch, lambda: Broken(how))
    settings = ServerSettings(replies=ReplySettings(tool_call_parser="broken"))
    engine = engine_of("one ", "two ", "three ", "four")
    body: Mapping[str, object] = {"model": "fake", "messages": HELLO, "tools": TOOLS}

    async with client_of(engine, settings) as client:
        response = await client.post(
            "/v1/chat/completions", json={**body, "stream": True}
        )
        events = (await response.text()).strip().split("\n\n")[:-1]
        assert client.app is not None
        failures = client.app[PARSERS].failures.stats().failures

    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    content = "".join(part.get("content", "") for part in deltas(chunks))
    assert content == "one two three four"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert failures == (("tool", "broken", 1),)
    assert "its reply goes on as content" in caplog.text


async def test_slow_parser_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A reply whose parser has used up its time goes on as content.
    """
    clock = iter(range(1000))
    monkeypatch.setattr(time, "thread_time", lambda: 2.0 * next(clock))
    settings = ServerSettings(replies=ReplySettings(tool_call_parser="hermes"))
    engine = engine_of(*"abc", *CALLS)

    chunks = await streamed(engine, settings, tools=TOOLS)

    content = "".join(part.get("content", "") for part in deltas(chunks))
    assert content == "abc" + "".join(CALLS)
    assert "processor time" in caplog.text


async def test_parser_that_cannot_be_made_fails_no_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Nor one whose constructor fails later than at the start.
    """
    made: list[Broken] = []

    def make() -> Broken:
        if made:
            raise OSError("no more")
        made.append(Broken("raises"))
        return made[0]

    install(monkeypatch, make)
    settings = ServerSettings(replies=ReplySettings(tool_call_parser="broken"))

    answer = await answered(engine_of("Hello"), settings, tools=TOOLS)

    assert answer["choices"][0]["message"]["content"] == "Hello"
