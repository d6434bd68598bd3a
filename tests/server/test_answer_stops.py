"""Stop strings end the answer, and neither the reasoning before it nor a call."""

import json
from dataclasses import replace
from typing import Any

from hookline_server.protocol.tool_use import Choice, ToolUse
from hookline_server.protocol.tools import Tool
from hookline_server.replies.answer_stops import AnswerStops
from hookline_server.replies.parsers import choose_parsers
from hookline_server.replies.reading import ReplyReading
from hookline_server.replies.settings import ReplySettings
from hookline_server.reply_parsing.parts import CallArguments, Content
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

HELLO = [{"role": "user", "content": "Hi"}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "STOP"}}\n</tool_call>'
MENDED = "<tool_call>{'name': 'f', 'arguments': {'a': 'b\t'}}</tool_call>"
GLM_CALL = "<tool_call>f\n<arg_key>c</arg_key>\n<arg_value>P</arg_value>\n</tool_call>"
F = Tool(name="f", description="", parameters={"type": "object"}, strict=False)
USE = ToolUse(tools=(F,), choice=Choice.AUTO)
TOOLS = [{"type": "function", "function": {"name": "f"}}]

HARMONY = (
    "<|channel|>analysis<|message|>STOP?<|end|>"
    "<|start|>assistant<|channel|>final<|message|>one STOP two"
)
TEXTS: list[tuple[str | None, str | None, str, list[str], str, str | None]] = [
    # reasoning parser, tool parser, text, stop, the answer, what ended it
    ("qwen3", None, "<think>STOP</think>one STOP two", ["STOP"], "one ", "STOP"),
    ("qwen3", None, "<think>\n\n</think>\n\none\n\ntwo", ["\n\n"], "one", "\n\n"),
    ("qwen3", None, "one STOP two", ["STOP"], "one ", "STOP"),
    ("qwen3", None, "<think>STOP, still", ["STOP"], "", None),
    ("qwen3", None, "<think>a</think>ST", ["STOP", "TO"], "ST", None),
    ("deepseek_r1", None, "one\n</think>\nb\n", ["\n"], "b", "\n"),
    ("ernie45", None, "x</think>\n<response>\na STOP", ["STOP"], "a ", "STOP"),
    ("openai_gptoss", None, HARMONY, ["STOP"], "one ", "STOP"),
    (None, "hermes", f"one {CALL}", ["STOP", '"a"'], "one", None),
    (None, "hermes", f"one{CALL}two STOP three", ["STOP"], "onetwo ", "STOP"),
    (None, "hermes", "a <tool_c STOP", ["STOP", "<tool_call>"], "a <tool_c ", "STOP"),
    (None, "hermes", "ab" + CALL + "c", ["abc"], "abc", None),
    (None, "hermes", f"{MENDED}l: {MENDED}", ["l"], "", "l"),
    (None, "glm45", f"{GLM_CALL}The <arg_key> of", ["e <a"], "Th", "e <a"),
    (None, "mistral", "[TOOL_CALLS]f{}[TOOL_CALLS] no call", ["ca"], " no ", "ca"),
    ("qwen3", "hermes", f"<think>STOP</think>{CALL}", ["STOP"], "", None),
    (
        "qwen3",
        "qwen3_coder",
        "<think>x\n\n</think>y\n\nObs:",
        ["\nObs"],
        "y\n",
        "\nObs",
    ),
    (None, "mistral", '[TOOL_CALLS][{"name":"f","arguments":{}}]', ["f"], "", None),
]


def reading_of(reasoning: str | None, tool: str | None) -> ReplyReading:
    settings = ReplySettings(reasoning_parser=reasoning, tool_call_parser=tool)
    chosen = choose_parsers(settings)
    use = ReplyReading().use if tool is None else USE
    return ReplyReading(use=use, tool=chosen.tool, reasoning=chosen.reasoning)


def cut(
    reading: ReplyReading, pieces: list[str], stop: list[str], *, include: bool = False
) -> tuple[str, str | None]:
    """Returns the text of a reply, as far as it is given out, and what has ended it."""
    search = AnswerStops(stop, include_stop=include, make_reader=reading.reader)
    text = ""
    for piece in pieces:
        text += search.push(piece, can_stop=True)
        if search.found is not None:
            return text, search.found
    return text + search.flush(can_stop=True), search.found


def answer(reading: ReplyReading, text: str) -> tuple[str, str]:
    """Returns a reply's content, and the arguments of its calls."""
    reader = reading.reader()
    assert reader is not None
    parts = [*reader.push(text), *reader.finish()]
    texts = ("", "")
    for part in parts:
        if isinstance(part, Content):
            texts = (texts[0] + part.text, texts[1])
        elif isinstance(part, CallArguments):
            texts = (texts[0], texts[1] + part.text)
    return texts


def test_only_the_answer_is_searched_however_it_is_split() -> None:
    """
    In every format, the client sees the content up to the stop string, and whole calls;
    what the stop string occurs in besides does not matter.
    """
    faults = []
    for reasoning, tool, text, stop, expected, ended_by in TEXTS:
        reading = reading_of(reasoning, tool)
        splits = [list(text), [text]]
        splits += [[text[:at], text[at:]] for at in range(1, len(text))]
        for pieces in splits:
            shown, found = cut(reading, pieces, stop)
            content, arguments = answer(reading, shown)
            is_whole = ended_by is not None or shown == text
            has_call = "STOP" not in text or '"STOP"' in arguments or CALL not in text
            if (content, found) != (expected, ended_by) or not (is_whole and has_call):
                faults.append((text, pieces[0], content, found, arguments))
                break

    assert not faults


def test_the_stop_string_may_stay_in_the_text() -> None:
    """
    With `include_stop_str_in_output`, and nothing behind it.
    """
    text = "<think>STOP</think>one STOP two"

    shown, _ = cut(reading_of("qwen3", None), list(text), ["STOP"], include=True)

    assert shown == "<think>STOP</think>one STOP"


def test_text_comes_as_soon_as_it_is_sure() -> None:
    """
    Reasoning is not held back, nor is a call behind the beginning of a stop string.
    """
    reading = reading_of("qwen3", "hermes")
    search = AnswerStops(["\nObs"], include_stop=False, make_reader=reading.reader)

    shown = [search.push(each, can_stop=True) for each in ("<think>Well", ", STOP,")]
    search.push("</think>x", can_stop=True)
    held = search.push("\n", can_stop=True)
    begun = search.push('<tool_call>{"name": "f", "arguments": {"a', can_stop=True)

    assert "".join(shown) == "<think>Well, STOP,"
    assert held == ""
    assert begun == '\n<tool_call>{"name": "f", "arguments": {"a'


def settings_of(tool: str | None = None) -> ServerSettings:
    replies = ReplySettings(reasoning_parser="qwen3", tool_call_parser=tool)
    return ServerSettings(replies=replies)


def engine_of(*script: str) -> FakeEngine:
    engine = FakeEngine(script)
    engine.facts = replace(FACTS, structured_outputs="fake")
    return engine


async def asked(
    path: str, settings: ServerSettings, engine: FakeEngine, **body: object
) -> Any:
    async with client_of(engine, settings) as client:
        response = await client.post(path, json=body)
        text = await response.text()
        assert response.status == 200, text
    if not body.get("stream"):
        return json.loads(text)
    lines = [line for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


SCRIPT = ("<think>no ST", "OP</think>", "one ST", "OP two")


async def test_every_api_ends_its_answer_at_the_stop_string() -> None:
    """
    Whole and streamed; the string in the reasoning before does not matter.
    """
    for stream in (False, True):
        chat: dict[str, Any] = {"messages": HELLO, "stop": ["STOP"], "stream": stream}
        found = await asked(
            "/v1/chat/completions", settings_of(), engine_of(*SCRIPT), **chat
        )
        if stream:
            deltas = [each["choices"][0] for each in found]
            content = "".join(each["delta"].get("content") or "" for each in deltas)
            choice = deltas[-1]
        else:
            [choice] = found["choices"]
            content = choice["message"]["content"]
            assert choice["message"]["reasoning_content"] == "no STOP"
        assert content == "one "
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "STOP")

        message: dict[str, Any] = {"messages": HELLO, "max_tokens": 9, "stream": stream}
        found = await asked(
            "/v1/messages",
            settings_of(),
            engine_of(*SCRIPT),
            stop_sequences=["STOP"],
            **message,
        )
        if stream:
            end = next(each for each in found if each["type"] == "message_delta")
            assert end["delta"]["stop_sequence"] == "STOP"
        else:
            assert [each["type"] for each in found["content"]] == ["thinking", "text"]
            assert found["content"][1]["text"] == "one "
            assert found["stop_reason"] == "stop_sequence"

        found = await asked(
            "/v1/responses",
            settings_of(),
            engine_of(*SCRIPT),
            input="Hi",
            stop="STOP",
            stream=stream,
        )
        response = found[-1]["response"] if stream else found
        assert response["output"][-1]["content"][0]["text"] == "one "
        assert response["status"] == "completed"


async def test_a_completion_ends_behind_the_reasoning_that_its_tags_show() -> None:
    """
    Where prompt or text begin it; a text without tags is all answer, also for a format
    in which models begin to reason by themselves.
    """
    r1 = ServerSettings(replies=ReplySettings(reasoning_parser="deepseek_r1"))
    cases = [
        ("Hi", ("<think>a\nb</think>", "c\nd"), "<think>a\nb</think>c"),
        ("Hi<think>\n", ("a\nb</think>", "c\nd"), "a\nb</think>c"),
        ([72, 60, 116, 104, 105, 110, 107, 62], ("a\n</think>c\nd",), "a\n</think>c"),
        ("Hi", ("a\nb</think>c\nd",), "a"),
    ]
    for prompt, script, expected in cases:
        engine = engine_of(*script)
        found = await asked("/v1/completions", r1, engine, prompt=prompt, stop="\n")
        [choice] = found["choices"]
        assert (choice["text"], choice["stop_reason"]) == (expected, "\n"), prompt


async def test_no_stop_string_cuts_a_call() -> None:
    """
    Neither one that the model chooses to make, nor one that it must make.
    """
    free = await asked(
        "/v1/chat/completions",
        settings_of("hermes"),
        engine_of(*CALL),
        messages=HELLO,
        tools=TOOLS,
        stop=["STOP", "\n"],
    )
    must = await asked(
        "/v1/chat/completions",
        settings_of(),
        engine_of(*'[{"name": "f", "parameters": {"a": "STOP"}}]'),
        messages=HELLO,
        tools=TOOLS,
        tool_choice="required",
        stop=["STOP"],
    )

    for found in (free, must):
        [choice] = found["choices"]
        [call] = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"a": "STOP"}


async def test_reasoning_that_is_cut_short_ends_by_length() -> None:
    """
    The maximum of tokens ends it, and neither a budget of reasoning nor a stop string:
    there is no content, and each API says so in its own word.
    """
    settings, script = settings_of(), "<think>no STOP"
    chat = await asked(
        "/v1/chat/completions",
        settings,
        engine_of(script),
        messages=HELLO,
        stop="STOP",
    )
    message = await asked(
        "/v1/messages",
        settings,
        engine_of(script),
        messages=HELLO,
        max_tokens=9,
        stop_sequences=["STOP"],
        thinking={"type": "enabled", "budget_tokens": 5},
    )
    response = await asked(
        "/v1/responses", settings, engine_of(script), input="Hi", stop="STOP"
    )

    [choice] = chat["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", None)
    assert message["stop_reason"] == "max_tokens"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
