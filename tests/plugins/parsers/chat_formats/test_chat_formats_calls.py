"""Tool calls in each format, however the text is cut."""

import json
import random
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline_chat_formats.hf import TemplateToolParser
from hookline_server.reply_parsing.reader import LONGEST_WORD
from hookline_server.reply_parsing.stepped_parser import (
    LONGEST_SPACE,
    SteppedToolParser,
)
from hookline_server.reply_parsing.tool_parser import ToolParser

from .formats import REPLIES, TOOL_PARSERS, TOOLS, Reply, read
from .untidy_formats import UNTIDY_REPLIES

ALL_REPLIES = (*REPLIES, *UNTIDY_REPLIES)

PIECES = (
    *("<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=a>"),
    *("</parameter>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", ">"),
    *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<|start|>"),
    *("<|channel|>", "analysis", "to=functions.f", "<|message|>", "<|end|>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "function", "```json", "```"),
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.f:0"),
    *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "functools"),
    *("<minimax:tool_call>", '<invoke name="f">', '<parameter name="a">', "</invoke>"),
    *("<｜DSML｜function_calls>", '<｜DSML｜invoke name="f">', "</｜DSML｜invoke>"),
    *('<｜DSML｜parameter name="a" string="false">', "</｜DSML｜parameter>"),
    *("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_sep｜>"),
    *('<steptml:invoke name="f">', "</steptml:invoke>", "<seed:tool_call>"),
    *("<|python_start|>", "<|tool_call_start|>", "<function_calls>", "<tool_calls>"),
    *(
        "f(",
        "f()",
        "f(a=",
        "(",
        ")",
        "=",
        "'",
        "True",
        '"""',
        "\\u00",
        "<|action_start|>",
    ),
    *("<|plugin|>", "<|tool_call|>", "<function_call>", "<longcat_tool_call>"),
    *('{"name": "f", "arguments": {"a": 1}}', '"name"', '"arguments"', '"f"', "f"),
    *("{", "}", "[", "]", '"', "\\", ":", ",", ";", " ", "\n", "a", "<", "é", "1"),
)
"""What the formats are made of: texts of these come close to calls."""

README = "plugins/parsers/chat_formats/README.md"

FORMATS = sorted(TOOL_PARSERS)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def cut(text: str, seed: int) -> list[str]:
    """Cuts a text at random into pieces of mostly a few characters."""
    chance, pieces = random.Random(seed), []  # noqa: S311 - no secret
    while text:
        size = chance.choice([1, 1, 2, 3, 5, 8, 40])
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def test_every_installed_parser_is_tested() -> None:
    """
    A format without replies fails here; names of one parser are tested once.

    Response templates have tests of their own.
    """
    installed = {
        each.load()
        for each in entry_points(group="hookline.tool_parsers")
        if each.value.startswith("hookline_chat_formats")
    }

    assert installed == {*TOOL_PARSERS.values(), TemplateToolParser}
    assert set(TOOL_PARSERS) == {name for name, *_ in REPLIES}


@pytest.mark.parametrize("kind", ["tool", "reasoning"])
def test_every_name_is_documented(kind: str) -> None:
    """
    The README has a table of all names, those of vLLM and of SGLang.
    """
    readme = (Path(__file__).parents[4] / README).read_text()
    tables = readme.split("| `--reasoning-parser`")
    names = {
        each.name
        for each in entry_points(group=f"hookline.{kind}_parsers")
        if each.value.startswith("hookline_chat_formats")
    }

    assert names <= set(re.findall(r"`([\w-]+)`", tables[kind == "reasoning"]))


@pytest.mark.parametrize(
    ("name", "text", "content", "calls"), ALL_REPLIES, ids=range(len(ALL_REPLIES))
)
def test_reply_says_what_it_should(
    name: str, text: str, content: str, calls: list[tuple[str, str]]
) -> None:
    """
    At once, a character at a time and otherwise cut, the parts say the same.
    """
    for pieces in ([text], list(text), cut(text, 1), cut(text, 2)):
        said = Reply(tool=name).read(pieces)

        assert (said.content, said.calls) == (content, calls)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=100)
@given(text=TEXTS, seed=st.integers(0, 1000))
def test_any_text_says_the_same_however_it_is_cut(
    name: str, text: str, seed: int
) -> None:
    """
    Joined parts do not depend on the pieces, also of texts that come close to calls.
    """
    whole = read(TOOL_PARSERS[name](TOOLS), [text])
    pieces = read(TOOL_PARSERS[name](TOOLS), cut(text, seed))

    assert (pieces.content, pieces.calls) == (whole.content, whole.calls)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=30)
@given(text=st.text(st.characters(exclude_characters="<[{｜"), max_size=200))
def test_text_without_calls_is_content(name: str, text: str) -> None:
    """
    Nothing is changed and nothing lost, white space included.
    """
    assert read(TOOL_PARSERS[name](TOOLS), [text]).content == text


def test_long_text_is_content_as_it_comes() -> None:
    """
    Only what may become a marker is kept back, and white space before it.
    """
    parser = TOOL_PARSERS["hermes"](TOOLS)

    said = [read_part(parser, piece) for piece in ("one ", "two", " <tool", "s> three")]

    assert said == ["one", " two", "", " <tools> three"]


def read_part(parser: ToolParser, piece: str) -> str:
    return "".join(getattr(part, "text", "") for part in parser.push(piece))


def test_arguments_come_as_they_are_written() -> None:
    """
    A client sees each piece of a long argument when it arrives.
    """
    parser = TOOL_PARSERS["hermes"](TOOLS)
    parser.push('<tool_call>{"name": "f", "arguments": {"a": "')

    said = [read_part(parser, piece) for piece in ("long ", "text\\", '" "')]

    assert said == ["long ", "text\\", '" "']


@pytest.mark.parametrize("name", ["glm45", "qwen3_coder"])
def test_texts_come_as_they_are_written(name: str) -> None:
    """
    Also where the format has to be turned into JSON.
    """
    begins = {
        "glm45": "<tool_call>get_weather<arg_key>city</arg_key><arg_value>",
        "qwen3_coder": "<function=get_weather><parameter=city>\n",
    }
    parser = TOOL_PARSERS[name](TOOLS)

    said = [read_part(parser, piece) for piece in (begins[name], "lo\nng", ' "t" <')]

    assert said == ['{"city": "', "lo\\nng", ' \\"t\\" ']


def test_ids_are_those_that_templates_of_mistral_take() -> None:
    """
    Nine letters and digits; an id that the model wrote is kept.
    """
    text = "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}"

    said = read(TOOL_PARSERS["mistral"](TOOLS), [text])

    made, written = said.ids
    assert re.fullmatch("[A-Za-z0-9]{9}", made or "")
    assert written == "abcdefghi"


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_evaluated(name: str) -> None:
    """
    Values are JSON or text: neither Python nor patterns are run.
    """
    text = "__import__('os').system('x')"
    reply = f"<function=f>\n<parameter=a>\n{text}\n</parameter>\n</function>"
    glm = f"<tool_call>f<arg_key>a</arg_key><arg_value>{text}</arg_value></tool_call>"

    said = read(TOOL_PARSERS[name](TOOLS), [reply, glm])

    for _, arguments in said.calls:
        assert json.loads(arguments) == {"a": text}


NEVER_ENDING = (
    *(piece for piece in PIECES if len(piece) > 1),
    *("<tool_call>{", '<tool_call>{"name": "', "[TOOL_CALLS]a", "<function=a"),
    *("[f(a=", "f(a=1),", "<|tool_call_begin|>a", '<invoke name="f', "[f(a='x"),
    *("<tool_call>f<arg_key>a", '{"name": "f", "parameters": "', " \n", "\\\\", '{"'),
)


@pytest.mark.parametrize("name", FORMATS)
def test_no_text_is_read_again_and_again(name: str) -> None:
    """
    What stays unread is bounded, whatever the text, so that work is linear.
    """
    for piece in NEVER_ENDING:
        parser = TOOL_PARSERS[name](TOOLS)
        assert isinstance(parser, SteppedToolParser)
        unread = 0

        for _ in range(100):
            parser.push(6 * piece)
            unread = max(unread, len(parser.reader._text) - parser.reader._at)

        assert unread <= LONGEST_WORD + LONGEST_SPACE, piece


@pytest.mark.parametrize("name", FORMATS)
def test_deep_nesting_raises_nothing(name: str) -> None:
    """
    Neither recursion nor memory follows the depth of what a model writes.
    """
    for start in ("[f(a=", '<tool_call>{"name": "f", "arguments": ', "[TOOL_CALLS]"):
        for bracket in "[{(":
            read(TOOL_PARSERS[name](TOOLS), [start, bracket * 20_000, ")" * 20_000])
