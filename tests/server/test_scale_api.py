"""`/scale` and vLLM's names of it: answers, errors, and who may call."""

import pytest

from hookline.exceptions import ConfigError, EngineDeadError, RequestError
from hookline_server.engine_number import (
    DrainTimeoutError,
    ScalingBusyError,
    ScalingState,
    StartFailedError,
)
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

SETTINGS = ServerSettings(enable_scaling=True, enable_sleep_mode=True)


async def test_it_exists_only_where_enabled() -> None:
    """Without its option each path is a 404."""
    async with client_of(FakeEngine()) as client:
        statuses = [
            (await client.get("/scale")).status,
            (await client.post("/scale", json={"data_parallel_size": 2})).status,
            (await client.post("/scale_elastic_ep", json={})).status,
            (await client.post("/is_scaling_elastic_ep")).status,
        ]

    assert statuses == [404] * 4


async def test_it_answers_with_the_engines() -> None:
    """The time for requests is the caller's, or each form's default."""
    engine = FakeEngine()
    async with client_of(engine, SETTINGS) as client:
        body: dict[str, object] = {"data_parallel_size": 2}
        first = await (await client.post("/scale", json=body)).json()
        body = {"data_parallel_size": 3, "drain_timeout": 7}
        await client.post("/scale", json=body)
        vllm = {"new_data_parallel_size": 1}
        done = await (await client.post("/scale_elastic_ep", json=vllm)).json()

    assert first == {
        "data_parallel_size": 2,
        "wanted": 2,
        "is_scaling": False,
        "engines": [
            {"engine": 0, "state": "serving"},
            {"engine": 1, "state": "serving"},
        ],
    }
    assert engine.scaling.asked == [(2, 300.0), (3, 7.0), (1, 120.0)]
    assert done == {"message": "Scaled to 1 data parallel engines"}


async def test_the_state_shows_who_comes_and_goes() -> None:
    """Also by vLLM's name."""
    engine = FakeEngine()
    engine.scaling.state = ScalingState((0, 2), (3,), (1,))
    engine.scaling.is_changing = True
    async with client_of(engine, SETTINGS) as client:
        shown = await (await client.get("/scale")).json()
        vllm = await (await client.post("/is_scaling_elastic_ep")).json()

    assert shown["data_parallel_size"] == 2
    assert shown["is_scaling"]
    assert [each["state"] for each in shown["engines"]] == [
        "serving",
        "leaving",
        "serving",
        "starting",
    ]
    assert vllm == {"is_scaling_elastic_ep": True}


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (
            ConfigError("in-process", "fixed"),
            409,
            "scaling_not_supported",
            "in-process",
        ),
        (ScalingBusyError("later"), 409, "scaling_in_progress", None),
        (StartFailedError("no memory"), 503, "engine_start_failed", None),
        (DrainTimeoutError((1,), 3.0), 504, "drain_timeout", None),
        (EngineDeadError("it is being stopped"), 503, "engine_unavailable", None),
        (
            RequestError("too many", param="data_parallel_size"),
            400,
            "invalid_request",
            "data_parallel_size",
        ),
    ],
)
async def test_each_failure_has_a_status(
    error: Exception, status: int, code: str, param: str | None
) -> None:
    """The message is the reason, and `param` the option or field."""
    engine = FakeEngine()
    engine.scaling.error = error
    async with client_of(engine, SETTINGS) as client:
        response = await client.post("/scale", json={"data_parallel_size": 2})
        body = await response.json()

    assert response.status == status
    assert (body["error"]["code"], body["error"]["param"]) == (code, param)
    assert body["error"]["message"] == str(error)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data_parallel_size": None},
        {"data_parallel_size": "many"},
        {"data_parallel_size": 1.5},
        {"data_parallel_size": True},
        {"data_parallel_size": 2, "drain_timeout": -1},
        {"data_parallel_size": 2, "drain_timeout": 1e9},
        {"data_parallel_size": 2, "drain_timeout": "soon"},
        [2],
    ],
)
async def test_bad_bodies_are_refused(body: object) -> None:
    """Each is a 400, and nothing is asked of the engines."""
    engine = FakeEngine()
    async with client_of(engine, SETTINGS) as client:
        response = await client.post("/scale", json=body)

    assert response.status == 400
    assert engine.scaling.asked == []


async def test_sleep_waits_until_engines_have_come() -> None:
    """One that joins would be awake; the refusal says so."""
    engine = FakeEngine()
    engine.scaling.is_changing = True
    async with client_of(engine, SETTINGS) as client:
        response = await client.post("/sleep")
        body = await response.json()

    assert (response.status, body["error"]["code"]) == (409, "scaling_in_progress")
    assert engine.commands == []
