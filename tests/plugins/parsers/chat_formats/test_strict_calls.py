"""Structural tags of the formats: free text, and calls that follow their schemas."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import numpy as np
import pytest

from hookline.structured_outputs import StructuredOutputsParams
from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.loading import make_backend
from hookline_grammars.spec import spec_of
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content
from hookline_server.reply_parsing.tool_parser import (
    StrictToolParser,
    ToolParser,
    ToolParserContext,
)

from .formats import TOOL_PARSERS

pytest.importorskip("xgrammar")

EOS = 256
CONTEXT = BackendContext(
    tokens=[bytes([each]) for each in range(256)] + [b""],
    vocab_size=257,
    eos_token_ids=(EOS,),
    options={},
)
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"$ref": "#/$defs/City"},
        "days": {"type": "integer", "minimum": 0, "maximum": 99},
        "note": {"type": ["string", "null"]},
        "more": {"type": "array", "items": {"enum": ["a", 1, None]}, "maxItems": 2},
        "deep": {
            "type": "object",
            "properties": {"x": {"type": "boolean"}},
            "required": ["x"],
            "additionalProperties": False,
        },
    },
    "required": ["city", "days", "note", "more", "deep"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "enum": ["Paris", "12", "null"]}},
}
TOOLS = ToolParserContext(tools={"weather": WEATHER, "g": {}})
OPENINGS: Mapping[str, str] = {
    "hermes": '<tool_call>\n{"name": "weather"',
    "longcat": '<longcat_tool_call>{"name": "weather"',
    "llama3_json": '{"name": "weather"',
    "qwen3_coder": "<tool_call>\n<function=weather>",
    "deepseek_v3": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    "weather\n",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather",
    "plamo3": (
        "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
        "<|plamo:begin_tool_name:plamo|>weather"
    ),
}
"""How a call of the strict function begins; what follows is up to the tag."""
LIKELY = b'"}],:</>\n'
CLOSES = b"\n</parameter>"
SEEDS = range(4)


def parser(name: str) -> Any:
    return TOOL_PARSERS[name](TOOLS)


def matcher(name: str) -> GrammarMatcher:
    made = parser(name)
    assert isinstance(made, StrictToolParser)
    tag = made.structural_tag(frozenset({"weather"}))
    backend = make_backend("xgrammar", CONTEXT)
    spec = spec_of(StructuredOutputsParams(structural_tag=tag))
    return backend.matcher(backend.compile(spec), (EOS,))


def accepts(name: str, text: str) -> bool:
    """Whether a text is allowed as a whole reply."""
    made = matcher(name)
    return all(made.accept(byte) for byte in text.encode()) and made.accept(EOS)


def continued(made: GrammarMatcher, seed: int) -> Iterator[int]:
    """Yields random bytes that are allowed, until the text may end."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    mask = np.zeros(-(-CONTEXT.vocab_size // 32), np.int32)
    for _ in range(20_000):
        made.fill(mask)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
        if bits[EOS]:
            return
        if chance.random() < 0.1 and closes(made):
            yield from CLOSES
            continue
        allowed = np.flatnonzero(bits[:EOS]).tolist()
        likely = [each for each in allowed if each in LIKELY]
        byte = chance.choice(likely if likely and chance.random() < 0.6 else allowed)
        assert made.accept(byte)
        yield byte
    pytest.fail("it never ends")


def closes(made: GrammarMatcher) -> bool:
    """Whether a parameter ends here, which random bytes hardly ever spell."""
    for count, byte in enumerate(CLOSES):
        if not made.accept(byte):
            made.rollback(count)
            return False
    return True


def calls_of(name: str, text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Returns the content and the calls of a reply."""
    made: ToolParser = parser(name)
    content, calls = "", list[tuple[str, str]]()
    for part in [*made.push(text), *made.finish()]:
        match part:
            case Content(more):
                content += more
            case CallBegun(function):
                calls.append((function, ""))
            case CallArguments(more):
                calls[-1] = (calls[-1][0], calls[-1][1] + more)
            case _:
                pass
    return content, [(function, json.loads(given)) for function, given in calls]


@pytest.mark.parametrize("name", OPENINGS)
def test_whatever_is_allowed_is_a_call_that_matches(name: str) -> None:
    """
    Random texts behind the beginning of a call have arguments of the schema.
    """
    for seed in SEEDS:
        made = matcher(name)
        begun = OPENINGS[name].encode()
        assert all(made.accept(byte) for byte in begun)
        text = (begun + bytes(continued(made, seed))).decode("utf-8", "replace")

        content, calls = calls_of(name, text)

        assert content == ""
        assert calls[0][0] == "weather"
        for function, arguments in calls:
            jsonschema.validate(arguments, TOOLS.tools[function])


@pytest.mark.parametrize("name", OPENINGS)
def test_text_without_a_call_is_free(name: str) -> None:
    """
    Also text that looks a little like a call.
    """
    assert accepts(name, "")
    assert accepts(name, 'Hello <b>{"name": "Bob"}</b>\n<tool is [1, {}]')


@pytest.mark.parametrize("name", OPENINGS)
def test_other_functions_are_refused(name: str) -> None:
    """
    A call that has begun is one of the request's functions.
    """
    made = matcher(name)
    wrong = OPENINGS[name].replace("weather", "rain").encode()

    assert not all(made.accept(byte) for byte in wrong)


def test_a_function_that_is_not_strict_takes_any_object() -> None:
    """
    Beside a strict one, in the same reply.
    """
    one = '<tool_call>\n{"name": "g", "arguments": {"x": [1, {}]}}\n</tool_call>'

    assert accepts("hermes", f"Both: {one}\n{one} Done.")


@pytest.mark.parametrize(
    "name", sorted(TOOL_PARSERS.keys() - OPENINGS.keys() - {"pythonic"})
)
def test_other_formats_have_no_tag(name: str) -> None:
    """
    They say so, or do not know of tags.
    """
    made = parser(name)

    assert not isinstance(made, StrictToolParser) or made.structural_tag(()) is None


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({}, "12", 12),
        ({"type": ["string", "null"]}, "12", "12"),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": "number"}, "1", 1),
        ({"type": "integer"}, "true", True),
        ({"enum": ["12", "x"]}, "12", "12"),
        ({"enum": [12]}, "12", 12),
        ({"$ref": "#/$defs/Text"}, "true", "true"),
        ({"$ref": "#/$defs/Round"}, "true", True),
        ({"$ref": "#/nowhere"}, "12", 12),
        ({"anyOf": [{"$ref": "#/$defs/Text"}, {"type": "integer"}]}, "12", 12),
        ({"anyOf": [{"$ref": "#/$defs/Text"}, {"type": "integer"}]}, "1.5", "1.5"),
    ],
)
def test_values_have_a_type_of_their_schema(
    schema: dict[str, Any], text: str, expected: object
) -> None:
    """
    What JSON would take for a number is text where the schema takes only text.
    """
    definitions = {"Text": {"type": "string"}, "Round": {"$ref": "#/$defs/Round"}}
    whole = {"properties": {"a": schema}, "$defs": definitions}
    made = TOOL_PARSERS["qwen3_coder"](ToolParserContext(tools={"f": whole}))
    said = f"<function=f><parameter=a>{text}</parameter></function>"

    parts = [*made.push(said), *made.finish()]

    given = "".join(part.text for part in parts if isinstance(part, CallArguments))
    value = json.loads(given)["a"]
    assert (value, type(value)) == (expected, type(expected))
