"""Objectives that a request brings, and what it is called."""

import pytest

from hookline.request import Slo
from hookline_testing.scripted_server import FakeEngine, client_of

COMPLETION = ("/v1/completions", {"model": "fake", "prompt": "a"})
CHAT = (
    "/v1/chat/completions",
    {"model": "fake", "messages": [{"role": "user", "content": "a"}]},
)


@pytest.mark.parametrize(
    ("header", "slo"),
    [
        (None, None),
        ("ttft=0.5", Slo(ttft=0.5)),
        (" ttft=0.5, tpot = 0.05 ,e2e=10", Slo(ttft=0.5, tpot=0.05, e2e=10)),
    ],
)
@pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT])
async def test_header_sets_the_objectives(
    path: str, body: dict[str, object], header: str | None, slo: Slo | None
) -> None:
    """
    Objectives in the header are facts of the request.
    """
    engine = FakeEngine()
    headers = {} if header is None else {"X-Hookline-SLO": header}

    async with client_of(engine) as client:
        await client.post(path, json=body, headers=headers, raise_for_status=True)

    assert engine.streams[0].facts.slo == slo


@pytest.mark.parametrize("header", ["", "ttft", "ttft=x", "ttft=-1", "ttfb=1", "e2e=0"])
@pytest.mark.parametrize(("path", "body"), [COMPLETION, CHAT])
async def test_wrong_objectives_are_refused(
    path: str, body: dict[str, object], header: str
) -> None:
    """
    Objectives that make no sense are a 400 that names the header, and are counted.
    """
    engine = FakeEngine()

    async with client_of(engine) as client:
        response = await client.post(
            path, json=body, headers={"X-Hookline-SLO": header}
        )
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, "X-Hookline-SLO")
    assert [each.kind for each in engine.rejected] == ["invalid_request"]
    assert not engine.streams


@pytest.mark.parametrize(
    ("request_", "operation"), [(COMPLETION, "text_completion"), (CHAT, "chat")]
)
async def test_route_sets_the_operation(
    request_: tuple[str, dict[str, object]], operation: str
) -> None:
    """
    A request is called by what its endpoint does.
    """
    engine = FakeEngine()
    path, body = request_

    async with client_of(engine) as client:
        await client.post(path, json=body, raise_for_status=True)

    assert engine.streams[0].facts.operation == operation
