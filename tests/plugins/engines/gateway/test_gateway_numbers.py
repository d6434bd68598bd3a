"""What a gateway measures is what the upstream did, by a clock that the test has."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from hookline.clock import VirtualClock
from hookline.config.observers import ObserverConfig
from hookline.request import Slo
from hookline_faults.scripted_gateway import (
    CHAT,
    DONE,
    FINISH,
    chunk,
    data,
    gateway,
    numbers_of_gateway,
    stream,
    until_number,
    usage,
)
from hookline_faults.scripted_instances import FakeInstance, dead_instance

SGLANG = Path(__file__).parent / "sglang_metrics.txt"
"""A page as SGLang writes it: two engines, one in two stages, with priorities."""
BODY = {"model": "m", "messages": [], "stream": True}


async def test_stream_is_measured_by_its_pieces() -> None:
    """
    The first text ends the time to the first token, each later event brings its share
    of the tokens, and what follows the last text brings none.
    """
    clock, instance = VirtualClock(1), FakeInstance()
    instance.pieces = stream("a", "b", "c", used=usage(7, 3, cached=4))
    instance.tickets = asyncio.Semaphore(0)
    async with gateway(instance, clock=clock) as client:
        instance.tickets.release()
        response = await client.post(CHAT, json=BODY)
        await response.content.readuntil(b"\n\n")
        for seconds in (0.25, 0.5, 2.0, 0.0, 0.0, 0.0):
            clock.sleep(seconds)
            instance.tickets.release()
            await response.content.readuntil(b"\n\n")
        await response.read()
        numbers = await numbers_of_gateway(client)

    assert numbers.of("time_to_first_token_seconds_sum") == 0.25
    assert numbers.of("time_to_first_token_seconds_count") == 1
    assert numbers.of("inter_token_seconds_sum") == 2.5
    assert numbers.of("inter_token_seconds_count") == 2
    assert numbers.of("request_decode_seconds_sum") == 2.5
    assert numbers.of("request_time_per_output_token_seconds_sum") == 1.25
    assert numbers.of("request_e2e_seconds_sum") == 2.75
    assert numbers.of("generation_tokens_total") == 3
    assert numbers.of("prompt_tokens_total", source="computed") == 3
    assert numbers.of("prompt_tokens_total", source="local_cache") == 4
    assert numbers.of("requests_finished_total", reason="stop") == 1


ANSWERS: Mapping[str, tuple[str, list[bytes], tuple[float, float] | None]] = {
    "completion": (
        "/v1/completions",
        [b'{"choices":[{"text":"a","finish_reason":"length"}],"usage":', b""],
        (5, 2),
    ),
    "embedding": (
        "/v1/embeddings",
        [b'{"data":[],"usage":{"prompt_tokens":9,"total_tokens":9}}'],
        (9, 0),
    ),
    "unknown": ("/v1/completions", [b"<html>"], None),
    "no usage": (CHAT, stream("a", "b"), None),
    "response": (
        "/v1/responses",
        [
            b"event: response.created\n",
            data({"type": "response.created", "response": {"status": "in_progress"}}),
            data({"type": "response.output_text.delta", "delta": "a"}),
            data(
                {
                    "type": "response.completed",
                    "response": {
                        "status": "completed",
                        "usage": {
                            "input_tokens": 4,
                            "output_tokens": 1,
                            "input_tokens_details": {"cached_tokens": 2},
                        },
                    },
                }
            ),
        ],
        (4, 1),
    ),
    "message": (
        "/v1/messages",
        [
            b"event: message_start\n",
            data(
                {
                    "type": "message_start",
                    "message": {
                        "usage": {
                            "input_tokens": 3,
                            "output_tokens": 0,
                            "cache_read_input_tokens": 5,
                        }
                    },
                }
            ),
            data({"type": "content_block_delta", "delta": {"text": "a"}}),
            data(
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 6},
                }
            ),
            data({"type": "message_stop"}),
        ],
        (8, 6),
    ),
    "lines of CRLF": (
        CHAT,
        [each.replace(b"\n", b"\r\n") for each in stream("a", "b", used=usage(2, 2))],
        (2, 2),
    ),
    "events in halves": (
        CHAT,
        [
            half
            for each in stream("a", "b", used=usage(2, 2))
            for half in (each[:9], each[9:])
        ],
        (2, 2),
    ),
    "one piece": (CHAT, [b"".join(stream("a", "b", used=usage(2, 2)))], (2, 2)),
}
ANSWERS["completion"][1][1] = (
    b'{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}'
)


@pytest.mark.parametrize("name", ANSWERS)
async def test_tokens_are_those_that_an_answer_tells(name: str) -> None:
    """In each API's form; an answer that tells none adds none, and no 0 either."""
    path, pieces, expected = ANSWERS[name]
    instance = FakeInstance()
    instance.pieces = pieces
    async with gateway(instance) as client:
        body = await (await client.post(path, json={"model": "m"})).read()
        numbers = await numbers_of_gateway(client)

    assert body == b"".join(pieces)
    told = [numbers.of(f"request_{kind}_tokens_sum") for kind in KINDS]
    counted = [numbers.of(f"request_{kind}_tokens_count") for kind in KINDS]
    assert counted == ([0, 0] if expected is None else [1, 1])
    assert tuple(told) == (expected or (0, 0))
    assert numbers.of("request_e2e_seconds_count") == 1
    if name != "completion":
        assert numbers.of("requests_finished_total", reason="stop") == 1
    else:
        assert numbers.of("requests_finished_total", reason="length") == 1


KINDS = ("prompt", "generation")


async def test_first_token_is_seen_before_the_end() -> None:
    """While a stream goes on, and its request counts as received."""
    instance = FakeInstance()
    instance.pieces = stream("a", "b")
    instance.tickets = asyncio.Semaphore(2)
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        await response.content.readuntil(b"\n\n")
        await response.content.readuntil(b"\n\n")
        numbers = await numbers_of_gateway(client)
        for _ in instance.pieces:
            instance.tickets.release()
        await response.read()

    assert numbers.of("time_to_first_token_seconds_count") == 1
    assert numbers.of("requests_received_total") == 1
    assert numbers.of("requests_finished_total") == 0


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [(400, "rejected", "upstream_400"), (500, "error", None)],
)
async def test_refusals_and_errors_are_told_apart(
    status: int, reason: str, code: str | None
) -> None:
    """The last upstream's own answer is passed on, and counted by what it is."""
    instance = FakeInstance()
    instance.status = status
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        assert (response.status, await response.read()) == (status, instance.error)
        numbers = await numbers_of_gateway(client)

    assert numbers.of("requests_finished_total", reason=reason) == 1
    assert numbers.of("requests_finished_total") == 1
    if code is not None:
        assert numbers.of("requests_rejected_total", code=code) == 1


async def test_retried_request_counts_where_it_ends() -> None:
    """Its move is counted, and nothing is left open where it came from."""
    first, second = FakeInstance(), FakeInstance()
    first.status = 500
    second.pieces = stream("a", used=usage(1, 1))
    async with gateway(first, second, balance="round_robin") as client:
        await (await client.post(CHAT, json=BODY)).read()
        numbers = await numbers_of_gateway(client)

    assert numbers.of("requests_moved_total", engine="0") == 1
    assert numbers.of("requests_finished_total", engine="0") == 0
    assert numbers.of("requests_finished_total", engine="1", reason="stop") == 1
    assert numbers.of("generation_tokens_total", engine="1") == 1


async def test_request_without_an_upstream_fails() -> None:
    """It is one clear error for the client, and one in the numbers."""
    async with gateway(dead_instance()) as client:
        response = await client.post(CHAT, json=BODY)
        answer = await response.json()
        numbers = await numbers_of_gateway(client)

    assert (response.status, answer["error"]["code"]) == (503, "no_instance")
    assert numbers.of("requests_finished_total", reason="error") == 1


async def test_state_is_the_upstreams_own() -> None:
    """What one of two does not tell is missing for it, and not 0."""
    telling, silent = FakeInstance(), FakeInstance()
    telling.running, telling.waiting, telling.kv_usage = 3, 2, 0.25
    silent.kv_usage = None
    async with gateway(telling, silent) as client:
        numbers = await numbers_of_gateway(client)

    assert numbers.of("requests_running", engine="0") == 3
    assert numbers.of("requests_waiting", engine="0", reason="capacity") == 2
    assert numbers.of("kv_cache_usage_ratio", engine="0") == 0.25
    assert numbers.of("requests_running", engine="1") == 0
    assert numbers.of("kv_cache_usage_ratio", engine="1") is None
    assert numbers.of("preemptions_total") is None
    assert numbers.of("step_seconds_count") is None


async def test_state_of_sglang_is_merged() -> None:
    """Ranks and priorities count once, queues by what their requests wait for."""
    instance = FakeInstance()
    instance.page = SGLANG.read_text("utf-8")
    async with gateway(instance) as client:
        numbers = await numbers_of_gateway(client)

    assert numbers.of("requests_running") == 5 + 2
    assert numbers.of("requests_waiting", reason="capacity") == 4
    assert numbers.of("requests_waiting", reason="grammar") == 3
    assert numbers.of("requests_waiting", reason="remote_kv") == 0
    assert numbers.of("kv_cache_usage_ratio") == 0.5
    assert numbers.of("context_length_tokens") == 32768


async def test_upstream_that_is_lost_and_found() -> None:
    """Its gauges are at rest meanwhile, and its counters go on."""
    instance = FakeInstance()
    instance.pieces = stream("a")
    instance.running = 4
    async with gateway(instance, poll_seconds=0.02) as client:
        await (await client.post(CHAT, json=BODY)).read()
        instance.health = 503
        numbers = await until_number(client, "engine_up", 0)
        assert numbers.of("requests_running") == 0
        instance.health = 200
        numbers = await until_number(client, "engine_up", 1)
        await (await client.post(CHAT, json=BODY)).read()
        numbers = await numbers_of_gateway(client)

    assert numbers.of("requests_received_total") == 2
    assert numbers.of("requests_finished_total", reason="stop") == 2
    assert numbers.of("engine_restarts_total", reason="lost") == 1


async def test_objectives_and_tenants() -> None:
    """They are those of the options and of the request's headers, as for a server."""
    instance = FakeInstance()
    instance.pieces = [chunk("a"), FINISH, DONE]
    observers = ObserverConfig(slo=Slo(e2e=60.0))
    async with gateway(
        instance, observers=observers, tenant_header="X-Tenant"
    ) as client:
        headers = {"X-Tenant": "me"}
        await (await client.post(CHAT, json=BODY, headers=headers)).read()
        headers["X-Hookline-SLO"] = "e2e=0.000001"
        await (await client.post(CHAT, json=BODY, headers=headers)).read()
        numbers = await numbers_of_gateway(client)

    assert numbers.of("slo_requests_total", outcome="met") == 1
    assert numbers.of("slo_requests_total", outcome="missed") == 1
