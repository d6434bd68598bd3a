"""The session that a client names in its request or in a header."""

from dataclasses import replace

import pytest

from hookline.exceptions import RequestError
from hookline.frontend.input_processor import check_types
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

FOLLOWED = replace(FACTS, enable_kv_cache_events=True)
COMPLETION = ("/v1/completions", {"model": "fake", "prompt": "a"})
CHAT = (
    "/v1/chat/completions",
    {"model": "fake", "messages": [{"role": "user", "content": "a"}]},
)
RESPONSE = ("/v1/responses", {"model": "fake", "input": "a"})
WRONG = ["x" * 257, "two words", "Straße", "a\tb"]


@pytest.mark.parametrize(
    ("header", "session"),
    [(None, None), ("", None), (" run-7 ", "run-7"), ("x" * 256, "x" * 256)],
)
@pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT, RESPONSE])
async def test_header_names_the_session(
    path: str, body: dict[str, object], header: str | None, session: str | None
) -> None:
    """
    The header, without spaces around it, is a fact of the request; an empty one is not.
    """
    engine = FakeEngine()
    engine.facts = FOLLOWED
    headers = {} if header is None else {"X-Session-ID": header}

    async with client_of(engine) as client:
        await client.post(path, json=body, headers=headers, raise_for_status=True)

    assert engine.streams[0].facts.session_id == session


@pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT, RESPONSE])
async def test_the_body_prevails(path: str, body: dict[str, object]) -> None:
    """
    A session in the body is closer to the client than a header, as in vLLM.
    """
    engine = FakeEngine()
    engine.facts = FOLLOWED

    async with client_of(engine) as client:
        await client.post(
            path,
            json={**body, "session_id": "mine"},
            headers={"X-Session-ID": "run-7"},
            raise_for_status=True,
        )

    assert engine.streams[0].facts.session_id == "mine"


@pytest.mark.parametrize("session", ["", "run-7\n", *WRONG])
async def test_wrong_sessions_in_the_body_are_refused(session: str) -> None:
    """
    The field has the bounds of the header, and is what the error names.
    """
    engine = FakeEngine()
    engine.facts = FOLLOWED
    path, body = COMPLETION

    async with client_of(engine) as client:
        response = await client.post(path, json={**body, "session_id": session})
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, "session_id")
    assert not engine.streams


@pytest.mark.parametrize("header", WRONG)
@pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT, RESPONSE])
async def test_wrong_sessions_are_refused(
    path: str, body: dict[str, object], header: str
) -> None:
    """
    A header that is too long or has other characters is a 400 that names it.
    """
    engine = FakeEngine()
    engine.facts = FOLLOWED

    async with client_of(engine) as client:
        response = await client.post(path, json=body, headers={"X-Session-ID": header})
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, "X-Session-ID")
    assert "1 to 256" in error["message"]
    assert header not in error["message"]
    assert [each.kind for each in engine.rejected] == ["invalid_request"]
    assert not engine.streams


@pytest.mark.parametrize("header", ["run-7", *WRONG])
async def test_nobody_reads_the_header_without_events(header: str) -> None:
    """
    Neither it nor the field is checked or sent while cache changes are not reported.
    """
    engine = FakeEngine()
    path, body = COMPLETION

    async with client_of(engine) as client:
        await client.post(
            path,
            json={**body, "session_id": header},
            headers={"X-Session-ID": header},
            raise_for_status=True,
        )

    assert engine.streams[0].facts.session_id is None


@pytest.mark.parametrize("session", ["", "run-7\n", *WRONG])
def test_the_engine_has_the_same_bounds(session: str) -> None:
    """
    A session that a program names has the bounds of one in a header.
    """
    request = GenerateRequest(
        prompt_token_ids=[1],
        params=SamplingParams(),
        facts=RequestFacts(session_id=session),
    )

    with pytest.raises(RequestError, match="malformed"):
        check_types(request)
