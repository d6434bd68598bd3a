"""What grammars of forced calls and of JSON leave to the model, in every backend."""

import json
from typing import Any

import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext
from hookline_grammars.json_schemas import most_space
from hookline_grammars.loading import make_backend
from hookline_grammars.spec import GrammarSpec

BYTES = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b""],
    vocab_size=257,
    eos_token_ids=(256,),
    options={},
)
BACKENDS = ["xgrammar", "llguidance"]
NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def accepted(backend: str, spec: GrammarSpec, texts: list[str]) -> list[str]:
    """Returns which texts match a grammar as a whole."""
    made = make_backend(backend, BYTES)
    data = made.compile(spec)
    found = []
    for text in texts:
        matcher = made.matcher(data, (256,))
        if all(map(matcher.accept, text.encode())) and matcher.accept(256):
            found.append(text)
    return found


@pytest.mark.parametrize("is_parallel", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_of_tags_is_nothing_else(backend: str, *, is_parallel: bool) -> None:
    """
    One tag, or more between separators, whose contents follow their schema.
    """
    pytest.importorskip(backend)
    tag = {
        "type": "tag",
        "begin": '<tool_call>\n{"name": "f", "arguments": ',
        "content": {
            "type": "json_schema",
            "json_schema": NUMBER,
            "max_whitespace_cnt": 2,
        },
        "end": "}\n</tool_call>",
    }
    listed = {
        "type": "tags_with_separator",
        "tags": [tag],
        "separator": "\n",
        "at_least_one": True,
        "stop_after_first": not is_parallel,
    }
    source = json.dumps({"type": "structural_tag", "format": listed})
    spec = GrammarSpec(GrammarKind.STRUCTURAL_TAG, source)
    two, compact = f"{CALL}\n{CALL}", CALL.replace(": 1", ":1")
    wrong = ["", f"x{CALL}", f"{CALL}x", CALL.replace("1", '"1"'), CALL[:-1]]
    wide = CALL.replace('{"a"', '{     "a"')

    found = accepted(backend, spec, [CALL, two, compact, *wrong, wide])

    assert found == ([CALL, two, compact] if is_parallel else [CALL, compact])


@pytest.mark.parametrize("backend", BACKENDS)
def test_white_space_is_enough_to_indent_and_no_more(backend: str) -> None:
    """
    By two spaces a level; without limit a model could fill its reply with it.
    """
    pytest.importorskip(backend)
    nested = {**NUMBER, "properties": {"a": NUMBER}}
    value = {"a": {"a": 1}}
    texts = [
        json.dumps(value),
        json.dumps(value, indent=2),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=9),
        '{"a":\n\n\n\n\n\n\n\n{"a":1}}',
    ]

    spec = GrammarSpec(GrammarKind.JSON, json.dumps(nested))

    assert accepted(backend, spec, texts) == texts[:3]


@pytest.mark.parametrize(
    ("schema", "levels"),
    [
        ({"type": "string"}, 0),
        ({"enum": [1, "a"]}, 0),
        ({"type": "array", "items": {"type": "integer"}}, 1),
        (NUMBER, 1),
        ({"anyOf": [{"type": "null"}, NUMBER]}, 1),
        ({**NUMBER, "properties": {"a": NUMBER}}, 2),
        ({"type": "object"}, 4),
        ({}, 4),
        ({"type": "array", "items": {"$ref": "#"}}, 5),
    ],
)
def test_space_grows_with_the_depth(schema: dict[str, Any], levels: int) -> None:
    """
    A value that the schema does not describe counts as four levels.
    """
    assert most_space(schema) == 1 + 2 * levels
