"""Replies read by the response template of a tokenizer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hookline.exceptions import ConfigError
from hookline.structured_outputs import ReasoningSpan
from hookline_chat_formats.hf import TemplateReasoningParser, TemplateToolParser
from hookline_chat_formats.response_template import ResponseTemplate
from hookline_server.replies.parsers import choose_parsers
from hookline_server.replies.settings import ReplySettings
from hookline_server.reply_parsing.parts import CallBegun, Content
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.tool_parser import ToolParserContext
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

from .formats import TOOLS, Said, read
from .test_chat_formats_calls import cut

GEMMA: Mapping[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": ["<|turn>model\n", "<tool_response|>"],
    "fields": {
        "thinking": {"open": "<|channel>thought\n", "close": "<channel|>"},
        "content": {"close": ["<turn|>", "<eos>"]},
        "tool_calls": {
            "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
            "close": "<tool_call|>",
            "repeats": True,
            "content": "json",
            "content_args": {
                "unquoted_keys": True,
                "string_delims": [['<|"|>', '<|"|>']],
            },
            "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
        },
    },
}
QWEN: Mapping[str, Any] = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>"},
        "content": {"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"},
        "tool_calls": {
            "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": (
                    r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"
                )
            },
            "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
        },
    },
}
LISTED: Mapping[str, Any] = {
    "start_anchor": "<assistant>",
    "fields": {
        "content": {},
        "tool_calls": {
            "open": "<tools>",
            "close": "</tools>",
            "content": "json",
            "transform_each": True,
            "transform": {"function": {"name": "{name}", "arguments": "{args}"}},
        },
    },
}
PARIS = '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>'
DAYS = ("get_weather", '{"city": "Paris", "days": 3}')
QWEN_CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)
REPLIES: Sequence[
    tuple[Mapping[str, Any], str, str, str, str, list[tuple[str, str]]]
] = (
    # template, end of the prompt, text, reasoning, content, calls
    (GEMMA, "", "Hi there.<turn|>", "", "Hi there.", []),
    (
        GEMMA,
        "",
        f"<|channel>thought\nHm.\n<channel|>\nSo. {PARIS}\n{PARIS}",
        "Hm.",
        "So.",
        [DAYS, DAYS],
    ),
    (
        GEMMA,
        "<|turn>model\n<|channel>thought\n",
        "Hm.<channel|>Hi.<turn|>",
        "Hm.",
        "Hi.",
        [],
    ),
    # the last turn counts
    (GEMMA, "<|channel>thought\n<|turn>model\n", "Hi. ", "", "Hi. ", []),
    # a call ends the reasoning; a mark within a text does not end the call
    (GEMMA, "", f"<|channel>thought\nHm. {PARIS}", "Hm.", "", [DAYS]),
    (
        GEMMA,
        "",
        '<|tool_call>call:f{a:<|"|><tool_call|><|"|>}<tool_call|>Hi.',
        "",
        "Hi.",
        [("f", '{"a": "<tool_call|>"}')],
    ),
    # no call, and one that was cut short
    (
        GEMMA,
        "",
        "a <|tool_call>call:f what<tool_call|> b",
        "",
        "a <|tool_call>call:f what<tool_call|> b",
        [],
    ),
    (
        GEMMA,
        "",
        'a <|tool_call>call:f{a:<|"|>b',
        "",
        'a <|tool_call>call:f{a:<|"|>b',
        [],
    ),
    (GEMMA, "", "a <|tool_call>call:f{}", "", "a", [("f", "{}")]),
    (
        QWEN,
        "<|im_start|>assistant\n<think>\n",
        f"Hm.\n</think>\n\nSo.\n{QWEN_CALL}<|im_end|>",
        "Hm.",
        "So.",
        [("get_weather", '{"city": "12", "days": 3}')],
    ),
    (
        LISTED,
        "",
        (
            'So.<tools>[{"name": "f", "args": {"a": [1]}}, '
            '{"name": "g", "args": {}}]</tools>'
        ),
        "",
        "So.",
        [("f", '{"a": [1]}'), ("g", "{}")],
    ),
)


def said_of(template: Mapping[str, Any], prompt_end: str, pieces: list[str]) -> Said:
    """Returns what both parsers find, the one behind the other."""
    config = {"response_template": template}
    tools = TemplateToolParser(ToolParserContext(tools=TOOLS.tools, tokenizer=config))
    has_reasoning = template is not LISTED
    reasoning = TemplateReasoningParser(
        ReasoningParserContext(
            prompt_end=prompt_end, tokenizer=config if has_reasoning else None
        )
    )
    said = Said()
    for parts in [*(tools.push(piece) for piece in pieces), tools.finish()]:
        for part in parts:
            if isinstance(part, Content):
                said.take(reasoning.push(part.text))
                continue
            if isinstance(part, CallBegun):
                said.take(reasoning.call_begun())
            said.take([part])
    said.take(reasoning.finish())
    return said


def test_replies_say_what_they_should() -> None:
    """At once, a character at a time and otherwise cut, the parts say the same."""
    faults = []
    for template, prompt_end, text, reasoning, content, calls in REPLIES:
        for pieces in ([text], list(text), cut(text, 1), cut(text, 2)):
            said = said_of(template, prompt_end, pieces)
            found = (said.reasoning, said.content, said.calls)
            if found != (reasoning, content, calls):
                faults.append((text, len(pieces), found))

    assert not faults


def test_calls_are_those_that_transformers_finds() -> None:
    """The library that defines the templates makes the same of whole replies."""
    chat_parsing = pytest.importorskip("transformers.utils.chat_parsing")
    for template, prompt_end, text, reasoning, _, calls in REPLIES:
        if not calls or "Hm. <|tool" in text or '"|><tool' in text:
            continue  # there it loses the call, or refuses the reply

        message = chat_parsing.parse_response(text, dict(template), prefix=prompt_end)

        functions = [call["function"] for call in message["tool_calls"]]
        assert [each["name"] for each in functions] == [name for name, _ in calls]
        thought = message.get("thinking", message.get("reasoning_content", ""))
        assert thought == reasoning
        if template is not QWEN:  # it takes `12` for a number without the schema
            given = [each["arguments"] for each in functions]
            assert given == [json.loads(arguments) for _, arguments in calls]


@pytest.mark.parametrize(
    ("prompt_end", "span"),
    [
        (
            "<|turn>model\n",
            ReasoningSpan(
                begin="<|channel>thought\n", is_optional=True, end="<channel|>"
            ),
        ),
        ("<|turn>model\n<|channel>thought\n", ReasoningSpan(end="<channel|>")),
        ("<|turn>model\n<|channel>thought\n<channel|>", None),
    ],
)
def test_a_grammar_learns_where_reasoning_ends(
    prompt_end: str, span: ReasoningSpan | None
) -> None:
    """The template's texts say what may precede a structured output."""
    context = ReasoningParserContext(
        prompt_end=prompt_end, tokenizer={"response_template": GEMMA}
    )

    assert TemplateReasoningParser(context).reasoning_span == span


@pytest.mark.parametrize("begun", ["<|channel>thought\nHm.<channel|>", ""])
def test_nothing_in_a_structured_output_is_a_mark(begun: str) -> None:
    """Its strings may have the template's texts."""
    context = ReasoningParserContext(
        tokenizer={"response_template": GEMMA}, is_structured=True
    )
    content = '{"a": "<turn|><|channel>thought\\n"}'

    for pieces in ([begun + content], [*begun, *content]):
        said = read(TemplateReasoningParser(context), pieces)

        assert said.content == content


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        ({}, "has no response_template"),
        ({"response_template": "x"}, "is no object"),
        ({"response_template": {"fields": {}}}, "non-empty"),
        ({"response_template": {**GEMMA, "fields": {"content": {}}}}, "opens no"),
    ],
)
@pytest.mark.parametrize("option", ["tool_call_parser", "reasoning_parser"])
def test_a_server_without_a_fitting_template_does_not_start(
    tokenizer: Mapping[str, object], reason: str, option: str
) -> None:
    """Once the model is known, the option is refused; before, it can be given."""
    settings = ReplySettings(**{option: "hf"})  # type: ignore[arg-type]
    choose_parsers(settings)

    with pytest.raises(ConfigError, match=reason):
        choose_parsers(settings, tokenizer)


def test_a_pattern_that_fits_anywhere_is_refused() -> None:
    """It would open a field at every character."""
    fields = {"thinking": {"open_pattern": "x*"}, "content": {}}

    with pytest.raises(ValueError, match="fits anywhere"):
        ResponseTemplate({"start_anchor": "a", "fields": fields})


SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hf", reasoning_parser="hf")
)


async def test_a_server_reads_replies_by_its_models_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reasoning, content and calls of a chat; the prompt's end may have begun it."""
    engine = FakeEngine(("<|channel>thought\nHm.", "<channel|>So. ", PARIS, "<turn|>"))
    config = {"response_template": GEMMA}
    monkeypatch.setattr(type(engine.texts), "tokenizer_info", config)
    tool = {"type": "function", "function": {"name": "get_weather"}}
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}

    async with client_of(engine, SETTINGS) as client:
        response = await client.post("/v1/chat/completions", json=body)
        answer = await response.json()

    message = answer["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == ("Hm.", "So.")
    [call] = message["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris", "days": 3}


async def test_a_server_needs_a_template_for_that() -> None:
    """Without one, the option is refused in one line before requests come."""
    with pytest.raises(ConfigError, match="has no response_template"):
        async with client_of(FakeEngine(("Hi.",)), SETTINGS):
            pass


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("Hi. <|tool_c", "Hi. "),
        ("Hi. <|tool_call>call:f{", "Hi."),
        ("Hi. <|tool_call> is a token here", None),
        ("Hi. <turn", "Hi. "),
    ],
)
def test_a_cut_reply_has_no_markup(text: str, content: str | None) -> None:
    """What may be the start of a mark or of a call is left out, and no sentence is."""
    config = {"response_template": GEMMA}
    tools = TemplateToolParser(ToolParserContext(tools=TOOLS.tools, tokenizer=config))
    said = Said()

    said.take([*tools.push(text), *tools.cut()])

    assert not said.calls
    assert said.content == (text if content is None else content)
