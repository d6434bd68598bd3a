"""Every response with the status 429 or 503 says when to try again."""

import dataclasses
from typing import Any

import pytest

from hookline import exceptions
from hookline.exceptions import (
    EngineSleepingError,
    HooklineError,
    OverloadedError,
    QueuedTokensError,
)
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_server.api_error import STATUSES, ApiError, as_api_error
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

EMBEDS = PoolingFacts(
    kind=PoolingType.LAST, normalize=True, hidden_size=8, is_matryoshka=True
)
HELLO = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "ab"},
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/messages": {"messages": HELLO, "max_tokens": 4},
    "/v1/responses": {"input": "Hi"},
}
LONG = "ab" * 100
OVERFLOWING: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"prompt": LONG}),
    ("/v1/completions", {"prompt": [97] * 200}),
    ("/v1/completions", {"prompt": ["ab", LONG]}),
    ("/v1/completions", {"prompt": "ab", "max_tokens": 60}),
    ("/v1/completions", {"prompt": LONG, "stream": True}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
    ("/v1/chat/completions", {"messages": HELLO, "max_completion_tokens": 60}),
    ("/v1/messages", {"messages": [{"role": "user", "content": LONG}]}),
    ("/v1/responses", {"input": LONG}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 60}),
    ("/v1/embeddings", {"input": LONG}),
    ("/pooling", {"input": [97] * 200}),
    ("/invocations", {"prompt": LONG}),
]


def all_overloads() -> list[type[OverloadedError]]:
    kinds = [each for each in vars(exceptions).values() if isinstance(each, type)]
    return [each for each in kinds if issubclass(each, OverloadedError)]


@pytest.mark.parametrize(
    "kind", [kind for kind, (status, _) in STATUSES.items() if status == 503]
)
def test_an_engine_that_cannot_serve_says_when(kind: type[HooklineError]) -> None:
    """
    By whatever class of error.
    """
    made = kind() if kind is EngineSleepingError else kind("now")
    error = as_api_error(made)  # type: ignore[arg-type]

    assert error.status == 503
    assert error.retry_after_seconds is not None
    assert error.retry_after_seconds >= 1


@pytest.mark.parametrize("kind", all_overloads())
def test_overload_says_when(kind: type[OverloadedError]) -> None:
    """
    Its code tells what is too much.
    """
    error = as_api_error(kind(3))

    assert error.status == 429
    assert error.retry_after_seconds is not None
    assert error.retry_after_seconds >= 1
    is_tokens = issubclass(kind, QueuedTokensError)
    assert error.code == ("overloaded_tokens" if is_tokens else "overloaded")


@pytest.mark.parametrize("status", [429, 503])
def test_a_new_error_says_when(status: int) -> None:
    """
    Whoever makes it need not think of it.
    """
    assert ApiError(status, "x", code="new").retry_after_seconds


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(("state", "status"), [("full", 429), ("dead", 503)])
async def test_responses_have_the_header(path: str, state: str, status: int) -> None:
    """
    On each endpoint.
    """
    engine = FakeEngine()
    if state == "full":
        engine.max_open = 0
    else:
        engine.fail("gone")

    async with client_of(engine) as client:
        response = await client.post(path, json=BODIES[path])

    assert response.status == status
    assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(("path", "body"), OVERFLOWING)
async def test_context_overflow_begins_as_clients_expect(
    path: str, body: dict[str, Any]
) -> None:
    """
    Gateways recognize it by the first sentence, and then try another model.
    """
    engine = FakeEngine()
    engine.facts = dataclasses.replace(
        FACTS,
        model=dataclasses.replace(FACTS.model, max_model_len=48),
        sections={"pooling": EMBEDS},
    )
    asked = {"max_tokens": 4, **body} if path == "/v1/messages" else body

    async with client_of(engine) as client:
        response = await client.post(path, json=asked)
        error = (await response.json())["error"]

    assert response.status == 400
    begin = "This model's maximum context length is 48 tokens."
    assert error["message"].startswith(begin)
