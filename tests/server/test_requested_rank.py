"""A client may name the engine that serves its request."""

from dataclasses import replace

import pytest

from hookline_server.header_options import RANK_HEADER
from hookline_testing.scripted_server import FakeEngine, client_of

COMPLETION = ("/v1/completions", {"prompt": "Hi"})
CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})
RESPONSES = ("/v1/responses", {"input": "Hi"})
MESSAGES = (
    "/v1/messages",
    {"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]},
)
ALL = pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT, RESPONSES, MESSAGES])


def three_engines() -> FakeEngine:
    engine = FakeEngine()
    engine.facts = replace(engine.facts, data_parallel_size=3)
    return engine


@ALL
@pytest.mark.parametrize(
    ("headers", "rank"),
    [({}, None), ({RANK_HEADER: "2"}, 2), ({RANK_HEADER.upper(): " 0 "}, 0)],
)
async def test_the_request_goes_to_the_engine_of_the_header(
    path: str, body: dict[str, object], headers: dict[str, str], rank: int | None
) -> None:
    """Without the header the server chooses."""
    engine = three_engines()

    async with client_of(engine) as client:
        await client.post(path, json=body, headers=headers, raise_for_status=True)

    assert engine.ranks == [rank]


@ALL
@pytest.mark.parametrize("header", ["", "3", "-1", "one", "1.0", "٢", "9" * 5000])
async def test_what_names_no_engine_is_refused(
    path: str, body: dict[str, object], header: str
) -> None:
    """A 400 that says which there are; it is counted."""
    engine = three_engines()

    async with client_of(engine) as client:
        response = await client.post(path, json=body, headers={RANK_HEADER: header})
        text = await response.text()

    assert response.status == 400
    assert f"{RANK_HEADER} must be the index of an engine, 0 to 2" in text
    assert [each.kind for each in engine.rejected] == ["invalid_request"]
    assert not engine.streams


async def test_a_single_engine_has_index_0() -> None:
    """The error says so."""
    async with client_of(FakeEngine()) as client:
        response = await client.post(
            COMPLETION[0], json=COMPLETION[1], headers={RANK_HEADER: "1"}
        )
        error = (await response.json())["error"]

    assert error["param"] == RANK_HEADER
    assert error["message"] == f"{RANK_HEADER} must be 0, the index of the only engine"
