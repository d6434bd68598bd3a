"""Liveness, readiness and deep health: what each of them depends on."""

import asyncio

import pytest

from hookline_server.context import DEPARTURE
from hookline_server.deep_health import DeepHealth
from hookline_server.probe import ProbeOutcome, ProbeResult
from hookline_testing.scripted_server import FakeEngine, client_of

LIVE = ("/health/live", "/live", "/livez")
READY = ("/health/ready", "/ready", "/readyz")


@pytest.mark.parametrize(
    ("state", "health", "ready"),
    [
        ("works", 200, 200),
        ("asleep", 200, 503),
        ("stalled", 503, 503),
        ("dead", 503, 503),
        ("draining", 503, 503),
        ("leaving", 503, 503),
    ],
)
async def test_each_state_has_its_answers(state: str, health: int, ready: int) -> None:
    """
    The server is alive in every state; a sleeping engine is healthy, but not ready.
    """
    engine = FakeEngine()
    engine.is_asleep = state == "asleep"
    engine.is_draining = state == "draining"
    engine.stall = "the engine has stalled" if state == "stalled" else None
    if state == "dead":
        engine.fail("gone")

    async with client_of(engine) as client:
        assert client.app is not None
        client.app[DEPARTURE].is_announced = state == "leaving"
        alive = [(await client.get(path)).status for path in LIVE]
        answers = [(await client.get(path)).status for path in READY]
        healthy = await client.get("/health")

    assert alive == [200] * 3
    assert answers == [ready] * 3
    assert healthy.status == health


@pytest.mark.parametrize("path", ["/health/deep", "/health_generate"])
@pytest.mark.parametrize(
    ("outcome", "status"), [("token", 200), ("busy", 200), ("failed", 503)]
)
async def test_deep_health_is_that_of_the_probe(
    path: str, outcome: str, status: int
) -> None:
    """
    An engine that works on others' requests is healthy; one that does nothing is not.
    """
    engine = FakeEngine()
    engine.probe_results = (
        ProbeResult(0, ProbeOutcome(outcome), 0.5, "no token and no step in 10 s"),
    )

    async with client_of(engine) as client:
        answer = await client.get(path)
        body = await answer.text()

    assert answer.status == status
    assert ("engine 0: no token" if status == 503 else f'"{outcome}"') in body


async def test_deep_health_of_a_stalled_engine_is_known() -> None:
    """
    It gets no further request.
    """
    engine = FakeEngine()
    engine.stall = "the engine has stalled"

    async with client_of(engine) as client:
        answer = await client.get("/health/deep")

    assert answer.status == 503
    assert engine.num_probes == 0


async def test_probes_cannot_load_the_engine() -> None:
    """
    Questions at once share one probe, and its result answers those of the next second.
    """
    engine = FakeEngine()
    engine.gate.clear()
    health = DeepHealth(engine, 10.0)

    asking = [asyncio.create_task(health.results()) for _ in range(100)]
    await asyncio.sleep(0)
    asking[0].cancel()  # its client leaves
    await asyncio.sleep(0)
    engine.gate.set()
    results = await asyncio.gather(*asking[1:])
    later = await health.results()

    assert set(results) == {later}
    assert engine.num_probes == 1
