"""Structured outputs over HTTP: which field becomes which parameter."""

from typing import Any

import pytest

from hookline import StructuredOutputsParams
from hookline.exceptions import GrammarError
from hookline_testing.scripted_server import FakeEngine, client_of

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"model": "fake", "prompt": "a"},
    "/v1/chat/completions": {
        "model": "fake",
        "messages": [{"role": "user", "content": "a"}],
    },
}
SCHEMA = {"type": "object"}


async def post(path: str, engine: FakeEngine, **fields: Any) -> tuple[int, Any]:
    async with client_of(engine) as client:
        response = await client.post(path, json={**BODIES[path], **fields})
        return response.status, await response.json()


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "strict": True, "schema": SCHEMA},
                }
            },
            {"json": SCHEMA},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            {"json_object": True},
        ),
        (
            {"response_format": {"type": "structural_tag", "format": {"type": "x"}}},
            {"structural_tag": {"type": "structural_tag", "format": {"type": "x"}}},
        ),
        ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}),
        (
            {"structured_outputs": {"json": "{}", "disable_any_whitespace": True}},
            {"json": "{}", "disable_any_whitespace": True},
        ),
        ({"guided_json": SCHEMA}, {"json": SCHEMA}),
        ({"guided_regex": "a"}, {"regex": "a"}),
        ({"guided_choice": ["a", "b"]}, {"choice": ("a", "b")}),
        (
            {"guided_grammar": 'root ::= "a"', "guided_whitespace_pattern": " "},
            {"grammar": 'root ::= "a"', "whitespace_pattern": " "},
        ),
    ],
    ids=str,
)
async def test_fields_become_parameters(
    path: str, fields: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """
    On both endpoints alike; `text` and null ask for nothing.
    """
    engine = FakeEngine()

    status, answer = await post(path, engine, **fields)

    assert status == 200, answer
    wanted = None if expected is None else StructuredOutputsParams(**expected)
    assert engine.streams[0].params.structured_outputs == wanted


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("fields", "param", "reason"),
    [
        ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema",
            "missing",
        ),
        ({"response_format": {}}, "response_format.type", "missing"),
        (
            {"response_format": {"type": "json_object"}, "guided_regex": "a"},
            "guided_regex",
            "one of them",
        ),
        ({"structured_outputs": {}}, "structured_outputs", "exactly one"),
        (
            {"structured_outputs": {"regex": "a", "choice": ["a"]}},
            "structured_outputs",
            "regex and choice",
        ),
        ({"guided_choice": []}, "guided_choice", "empty"),
        ({"guided_json": "{"}, "guided_json", "not JSON"),
        ({"guided_json": 5}, "guided_json", "expected"),
        (
            {"guided_regex": "a", "allowed_token_ids": [1]},
            "allowed_token_ids",
            "combined",
        ),
    ],
    ids=str,
)
async def test_wrong_field_is_a_400(
    path: str, fields: dict[str, Any], param: str, reason: str
) -> None:
    """
    One clear error, which names the field.
    """
    status, answer = await post(path, FakeEngine(), **fields)

    assert status == 400
    assert answer["error"]["param"] == param
    assert reason in answer["error"]["message"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_grammar_that_the_engine_rejects_is_a_400(
    path: str, stream: bool
) -> None:
    """
    Also for a stream, of which nothing has been sent yet.
    """
    engine = FakeEngine()
    engine.refusal = GrammarError("xgrammar: no")

    status, answer = await post(path, engine, stream=stream, guided_regex="a")

    assert status == 400
    assert answer["error"] == {
        "message": "xgrammar: no",
        "type": "invalid_request_error",
        "param": "guided_regex",
        "code": "invalid_grammar",
    }
