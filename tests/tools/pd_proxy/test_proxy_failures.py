"""What a route does when instances, networks or clients do not do their part."""

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest

from hookline_faults.scripted_instances import (
    FakeInstance,
    dead_instance,
    numbers_of,
    routed,
    until,
)
from hookline_pd_proxy.app import PROXY

PATH = "/v1/completions"
BODY = {"model": "m", "prompt": "Hello", "max_tokens": 7}
WAIT_SECONDS = 60.0


def failing(status: int) -> FakeInstance:
    instance = FakeInstance()
    instance.status = status
    return instance


def telling(told: object) -> FakeInstance:
    instance = FakeInstance()
    instance.transfer_params = told
    return instance


def stuck() -> FakeInstance:
    instance = FakeInstance()
    instance.gate.clear()
    return instance


def outcome(name: str) -> str:
    return f'requests_total{{endpoint="completions",outcome="{name}"}}'


ENDLESS = b'{"kv_transfer_params": {"a": "' + b"x" * 2**24

BROKEN: dict[str, tuple[Callable[[], FakeInstance], str]] = {
    "500": (lambda: failing(500), "failed"),
    "503": (lambda: failing(503), "failed"),
    "429": (lambda: failing(429), "failed"),
    "400": (lambda: failing(400), "refused"),
    "404": (lambda: failing(404), "refused"),
    "no JSON": (lambda: telling(b"{"), "malformed"),
    "no object": (lambda: telling(b"[]"), "malformed"),
    "a list": (lambda: telling([1]), "malformed"),
    "a text": (lambda: telling("x"), "malformed"),
    "too large": (lambda: telling(ENDLESS), "malformed"),
    "stuck": (stuck, "deadline"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_without_a_prefill_the_decode_instance_computes_all(what: str) -> None:
    """However it fails, the client gets its answer, and the reason is counted."""
    make, reason = BROKEN[what]
    prefill, decode = make(), FakeInstance()

    # Short only where it has to pass: a busy machine needs time for the others.
    limit = 0.2 if reason == "deadline" else 30.0
    async with routed([prefill], [decode], prefill_timeout=limit) as client:
        response = await client.post(PATH, json=BODY)
        body = await response.read()
        numbers = await numbers_of(client)

    assert (response.status, body) == (200, b"".join(decode.pieces))
    assert decode.received[0].fields == BODY
    assert numbers[f'fallbacks_total{{reason="{reason}"}}'] == 1
    assert "prefill_seconds_count" not in numbers


async def test_prefill_instance_that_dies_costs_nothing_but_time() -> None:
    """The first request finds out; it is served, and the others do not try."""
    prefill, decode = FakeInstance(), FakeInstance()
    life = AsyncExitStack()
    await life.enter_async_context(prefill.served())

    async with life, routed([prefill], [decode], poll_seconds=60) as client:
        await prefill.looks(1)
        await life.aclose()
        responses = [await client.post(PATH, json=BODY) for _ in range(3)]
        numbers = await numbers_of(client)

    assert [each.status for each in responses] == [200] * 3
    assert numbers['fallbacks_total{reason="unreachable"}'] == 1
    assert numbers['fallbacks_total{reason="no_instance"}'] == 2


async def test_prefill_instances_that_are_down_cost_nothing() -> None:
    """Once it is known that none is up, none is tried."""
    prefill, decode = dead_instance(), FakeInstance()

    async with routed([prefill], [decode]) as client:
        name = f'instance_up{{role="prefill",instance="{prefill.url[7:]}"}}'
        await until(client, gone=[name])
        response = await client.post(PATH, json=BODY)
        numbers = await numbers_of(client)
        health = await client.get("/health")

    assert (response.status, health.status) == (200, 200)
    assert numbers['fallbacks_total{reason="no_instance"}'] == 1


@pytest.mark.parametrize("what", ["500", "429", "no JSON", "a list"])
async def test_another_prefill_instance_is_tried(what: str) -> None:
    """It gets the same request, and its parameters are used."""
    make, _ = BROKEN[what]
    bad, good, decode = make(), FakeInstance(), FakeInstance()

    # The first of equals is chosen first; nobody has looked at them yet.
    async with routed([bad, good], [decode], poll_seconds=60) as client:
        response = await client.post(PATH, json=BODY)
        numbers = await numbers_of(client)

    assert response.status == 200
    assert decode.received[0].fields["kv_transfer_params"] == good.transfer_params
    assert len(good.received) == 1
    assert not [name for name in numbers if "fallbacks" in name]


async def test_refusal_of_a_prefill_is_asked_for_once() -> None:
    """The decode instance reports what is wrong with a request."""
    prefill, decode = [failing(400), failing(400)], failing(400)

    async with routed(prefill, [decode]) as client:
        response = await client.post(PATH, json=BODY)

    assert response.status == 400
    assert sum(len(each.received) for each in prefill) == 1
    assert len(decode.received) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_another_decode_instance_is_tried(status: int) -> None:
    """As long as nothing has been sent to the client, who sees nothing of it."""
    bad, good = failing(status), FakeInstance()

    async with routed([], [bad, good]) as client:
        responses = [await client.post(PATH, json=BODY) for _ in range(2)]
        numbers = await numbers_of(client)

    assert [each.status for each in responses] == [200, 200]
    assert len(good.received) == 2
    assert len(bad.received) == numbers['retries_total{role="decode"}'] >= 1


async def test_instance_that_breaks_before_its_first_byte_is_replaced() -> None:
    """Its headers may have come: nothing of it has left."""
    bad, good = FakeInstance(), FakeInstance()
    bad.cut_after = 0

    async with routed([], [bad, good]) as client:
        responses = [await client.post(PATH, json=BODY) for _ in range(2)]
        bodies = [await each.read() for each in responses]

    assert bodies == [b"".join(good.pieces)] * 2
    assert len(bad.received) >= 1


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (1, 2), (5, 3)])
async def test_retries_are_bounded(retries: int, asked: int) -> None:
    """The last answer is the client's, as it is."""
    decode = [failing(500) for _ in range(3)]

    async with routed([], decode, retries=retries) as client:
        response = await client.post(PATH, json=BODY)
        body = await response.read()
        numbers = await numbers_of(client)

    assert sum(len(each.received) for each in decode) == asked
    assert (response.status, body) == (500, decode[0].error)
    assert numbers[outcome("failed")] == 1


async def test_no_answer_is_begun_twice() -> None:
    """A stream that breaks off ends with an error; no other instance is asked."""
    bad, good = FakeInstance(), FakeInstance()
    bad.cut_after = 1
    good.running = 5  # so that the other is chosen

    async with routed([], [bad, good]) as client:
        await good.looks()
        response = await client.post(PATH, json={**BODY, "stream": True})
        body = await response.read()
        numbers = await numbers_of(client)

    begun, _, end = body.partition(b"\n\n")
    assert begun + b"\n\n" == bad.pieces[0]
    error, done = end.strip().split(b"\n\n")
    assert json.loads(error.removeprefix(b"data: "))["error"]["code"] == (
        "upstream_broken"
    )
    assert done == b"data: [DONE]"
    assert not good.received
    assert numbers[outcome("broken")] == 1


async def test_whole_answer_that_breaks_off_is_cut_off() -> None:
    """It is no shorter answer: the client's library sees that it is not whole."""
    bad = FakeInstance()
    bad.pieces, bad.cut_after = (b'{"a": ', b"1}"), 1

    async with routed([], [bad]) as client:
        response = await client.post(PATH, json=BODY)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
        await until(client, outcome("broken"))


async def test_errors_of_clients_go_through_unchanged() -> None:
    """Status, headers and body are the instance's, and no other is asked."""
    decode = [failing(400), failing(400)]

    async with routed([FakeInstance()], decode) as client:
        response = await client.post(PATH, json=BODY)
        body = await response.read()
        numbers = await numbers_of(client)

    assert (response.status, body) == (400, decode[0].error)
    assert response.headers["X-Own"] == "kept"
    assert "Keep-Alive" not in response.headers
    assert sum(len(each.received) for each in decode) == 1
    assert numbers[outcome("refused")] == 1


async def test_unreachable_instances_are_502_then_503() -> None:
    """Once all are known to be down, none is tried, and health reports it."""
    decode = FakeInstance()
    life = AsyncExitStack()
    await life.enter_async_context(decode.served())

    async with life, routed([], [decode], poll_seconds=60) as client:
        await decode.looks(1)
        await life.aclose()
        first = await client.post(PATH, json=BODY)
        second = await client.post(PATH, json=BODY)
        health = await client.get("/health")
        alive = await client.get("/health/live")
        answers = [await each.json() for each in (first, second, health)]
        numbers = await numbers_of(client)

    assert [first.status, second.status, health.status] == [502, 503, 503]
    codes = [each["error"]["code"] for each in answers]
    assert codes == ["upstream_unreachable", "no_instance", "no_instance"]
    assert decode.url[7:] in answers[0]["error"]["message"]
    assert alive.status == 200
    assert (numbers[outcome("unreachable")], numbers[outcome("no_instance")]) == (1, 1)


async def test_request_past_its_deadline_is_504() -> None:
    """And its instance has no more work with it."""
    decode = stuck()

    async with routed([], [decode], request_timeout=0.1) as client:
        response = await client.post(PATH, json=BODY)
        answer = await response.json()
        await asyncio.wait_for(decode.left.wait(), 5)
        numbers = await numbers_of(client)

    assert (response.status, answer["error"]["code"]) == (504, "upstream_timeout")
    assert numbers[outcome("deadline")] == 1
    assert not [name for name in numbers if name.startswith("in_flight")]


async def test_stream_past_its_deadline_ends_with_an_error() -> None:
    """Its status has left."""
    decode = stuck()
    decode.free_pieces = 1

    async with routed([], [decode], request_timeout=0.1) as client:
        response = await client.post(PATH, json=BODY)
        body = await response.read()
        await asyncio.wait_for(decode.left.wait(), 5)

    assert response.status == 200
    assert body.startswith(decode.pieces[0])
    assert b'"code":"upstream_timeout"' in body


async def test_deadline_holds_for_both_phases_together() -> None:
    """A slow prefill leaves less for the answer."""
    prefill, decode = stuck(), stuck()

    async with routed(
        [prefill], [decode], prefill_timeout=0.05, request_timeout=0.2
    ) as client:
        response = await client.post(PATH, json=BODY)

    assert response.status == 504
    assert decode.received


@pytest.mark.parametrize("phase", ["prefill", "decode"])
async def test_disconnect_cancels_the_request(phase: str) -> None:
    """The instance in charge sees its connection closed."""
    prefill, decode = FakeInstance(), FakeInstance()
    busy = prefill if phase == "prefill" else decode
    busy.gate.clear()

    async with routed([prefill], [decode]) as client:
        asking = asyncio.create_task(client.post(PATH, json=BODY))
        await asyncio.wait_for(busy.arrived.wait(), 5)
        asking.cancel()
        await asyncio.wait_for(busy.left.wait(), 5)
        numbers = await until(client, outcome("client_left"))

    assert len(decode.received) == (phase == "decode")
    assert not [name for name in numbers if name.startswith("in_flight")]


async def test_disconnect_cancels_a_stream() -> None:
    """Also after its first bytes."""
    decode = stuck()
    decode.free_pieces = 1

    async with routed([], [decode]) as client:
        response = await client.post(PATH, json=BODY)
        await response.content.readany()
        response.close()
        await asyncio.wait_for(decode.left.wait(), 5)
        await until(client, outcome("client_left"))


async def test_bodies_have_a_limit() -> None:
    """Instances see nothing of larger ones."""
    decode = FakeInstance()

    async with routed([], [decode], max_body_bytes=100) as client:
        response = await client.post(PATH, json={**BODY, "prompt": "a" * 100})
        answer = await response.json()

    assert (response.status, answer["error"]["code"]) == (413, "body_too_large")
    assert not decode.received


async def test_large_bodies_go_through() -> None:
    """Larger than what fits into any buffer on the way."""
    prefill, decode = FakeInstance(), FakeInstance()
    prompt = "a" * 3_000_000

    async with routed([prefill], [decode]) as client:
        body = io.BytesIO(json.dumps({**BODY, "prompt": prompt}).encode())
        response = await client.post(PATH, data=body)
        await response.read()

    assert prefill.received[0].fields["prompt"] == prompt
    assert decode.received[0].fields["prompt"] == prompt


async def test_draining_route_ends_what_runs() -> None:
    """New requests are refused, and health reports it."""
    decode = stuck()

    async with routed([], [decode]) as client:
        running = asyncio.create_task(client.post(PATH, json=BODY))
        await asyncio.wait_for(decode.arrived.wait(), WAIT_SECONDS)
        assert client.app is not None
        draining = asyncio.create_task(client.app[PROXY].open.drain(WAIT_SECONDS))
        await asyncio.sleep(0)
        refused = await client.post(PATH, json=BODY)
        health = await client.get("/health")
        was_done = draining.done()
        decode.gate.set()
        response = await running
        await asyncio.wait_for(draining, WAIT_SECONDS)

    assert (refused.status, health.status) == (503, 503)
    assert not was_done
    assert response.status == 200


async def test_drain_does_not_wait_for_ever() -> None:
    """Some requests do not end."""
    decode = stuck()

    async with routed([], [decode]) as client:
        running = asyncio.create_task(client.post(PATH, json=BODY))
        await asyncio.wait_for(decode.arrived.wait(), WAIT_SECONDS)
        assert client.app is not None
        await asyncio.wait_for(client.app[PROXY].open.drain(0.05), 5)
        running.cancel()


async def test_least_loaded_instance_is_chosen() -> None:
    """The reported load counts, including that of other clients."""
    busy, idle = FakeInstance(), FakeInstance()
    busy.running, busy.waiting, idle.running = 2, 2, 3

    async with routed([], [busy, idle]) as client:
        await busy.looks()
        await idle.looks()
        for _ in range(3):
            await client.post(PATH, json=BODY)

    assert (len(busy.received), len(idle.received)) == (0, 3)


async def test_own_requests_count_at_once() -> None:
    """Simultaneous requests do not all go to the instance that was last seen idle."""
    decode = [stuck() for _ in range(3)]

    async with routed([], decode, poll_seconds=60) as client:
        asking = [asyncio.create_task(client.post(PATH, json=BODY)) for _ in range(6)]
        for each in decode:
            await asyncio.wait_for(each.arrived.wait(), 5)
        numbers = await numbers_of(client)
        for each in decode:
            each.gate.set()
        await asyncio.gather(*asking)

    assert [len(each.received) for each in decode] == [2, 2, 2]
    assert [v for name, v in numbers.items() if name.startswith("in_flight")] == [2] * 3


async def test_instance_comes_back() -> None:
    """Once its health check is good again, requests go to it as before."""
    decode = failing(503)
    decode.health = 503

    async with routed([], [decode]) as client:
        name = f'instance_up{{role="decode",instance="{decode.url[7:]}"}}'
        await until(client, gone=[name])
        down = await client.post(PATH, json=BODY)
        decode.health = decode.status = 200
        await until(client, name)
        up = await client.post(PATH, json=BODY)

    assert (down.status, up.status) == (503, 200)


async def test_port_without_http_is_unreachable() -> None:
    """An invalid answer counts as unreachable."""

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00rubbish\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    decode, prefill = FakeInstance(), FakeInstance()
    port = server.sockets[0].getsockname()[1]
    decode.url = prefill.url = f"http://127.0.0.1:{port}"

    async with server, routed([prefill], [decode], poll_seconds=60) as client:
        response = await client.post(PATH, json=BODY)
        answer = await response.json()
        numbers = await numbers_of(client)

    assert (response.status, answer["error"]["code"]) == (502, "upstream_unreachable")
    assert numbers['fallbacks_total{reason="unreachable"}'] == 1
