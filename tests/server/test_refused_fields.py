"""Fields for features that Hookline lacks are refused, on both endpoints."""

import pytest

from hookline_server.protocol.chat import ChatRequest
from hookline_server.protocol.completion import CompletionRequest
from hookline_server.protocol.generation import WHAT
from hookline_testing.scripted_server import FakeEngine, client_of

PROMPTS: dict[str, dict[str, object]] = {
    "/v1/completions": {"prompt": "a"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}]},
}
KINDS = {
    "/v1/completions": CompletionRequest,
    "/v1/chat/completions": ChatRequest,
}
FIELDS = [
    (path, name)
    for path, kind in KINDS.items()
    for name in kind.__struct_fields__
    if name in WHAT
]


@pytest.mark.parametrize(("path", "name"), FIELDS)
async def test_unsupported_fields_are_refused(path: str, name: str) -> None:
    """
    Prompt embeddings, tools, grammars and templates are a 400 that names the field.
    """
    body = {"model": "fake", **PROMPTS[path], name: [{"type": "(a+)+$"}]}

    async with client_of(FakeEngine()) as client:
        response = await client.post(path, json=body)
        error = (await response.json())["error"]

    assert response.status == 400
    assert error["param"] == name


def test_all_unsupported_features_are_covered() -> None:
    """
    Each feature is a field of an endpoint.
    """
    assert {name for _, name in FIELDS} == set(WHAT)
