"""What a gateway passes on, to whom, and what it leaves as it is."""

import asyncio
import gzip

import pytest
from yarl import URL

from hookline.config.observers import ObserverConfig
from hookline_faults.scripted_gateway import (
    CHAT,
    gateway,
    numbers_of_gateway,
    stream,
    until_number,
    usage,
)
from hookline_faults.scripted_instances import FakeInstance, Received
from hookline_gateway.command import with_flags
from hookline_processes.python import python_command

BODY = {"model": "m", "messages": [], "stream": True}
PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/audio/transcriptions?a=%2F&b=1", bytes(range(256)) * 999),
        ("PUT", "/any/%C3%A4/path", b"\x00"),
        ("DELETE", "/v1/files/f", b""),
        ("GET", "/v1/models/m?x", b""),
        ("POST", CHAT, b'{"model": "m",  "x" : [ 1 ]}'),
        ("POST", CHAT, b"{"),
        ("PATCH", CHAT, b"[]"),
    ],
)
async def test_requests_pass_as_they_are(method: str, path: str, body: bytes) -> None:
    """Any method, path and bytes; headers, too, but those of one connection."""
    instance = FakeInstance()
    sent = {
        "Authorization": "Bearer of the client",
        "Content-Type": "application/json",
        "X-Mine": "1",
        "X-Request-Id": "mine",
        "Connection": "X-Hop",
        "X-Hop": "2",
        "TE": "trailers",
        "traceparent": PARENT,
    }
    async with gateway(instance) as client:
        response = await client.request(
            method, URL(path, encoded=True), data=body, headers=sent
        )
        answer = await response.read()

    [received] = instance.received
    assert (received.method, received.target, received.body) == (method, path, body)
    for name in ("Authorization", "Content-Type", "X-Mine", "X-Request-Id"):
        assert received.headers[name] == sent[name]
    assert received.headers["traceparent"] == PARENT
    assert not {"X-Hop", "TE"} & received.headers.keys()
    assert answer == b"".join(instance.pieces)
    assert response.headers["X-Own"] == "kept"
    assert response.headers["X-Request-Id"] == "mine"


async def test_coded_answers_pass_as_they_are() -> None:
    """Nobody unpacks them: neither for the client, nor to count."""
    instance = FakeInstance()
    packed = gzip.compress(b"".join(stream("a", used=usage(1, 1))))
    instance.pieces, instance.headers = [packed], {"Content-Encoding": "gzip"}
    async with gateway(instance) as client:
        response = await client.post(CHAT, json=BODY)
        body = await response.read()  # which the client unpacks
        numbers = await numbers_of_gateway(client)

    assert body == gzip.decompress(packed)
    assert numbers.of("request_generation_tokens_count") == 0
    assert numbers.of("requests_finished_total", reason="stop") == 1


async def test_pieces_pass_as_they_come() -> None:
    """The client has each one before the upstream sends the next."""
    instance = FakeInstance()
    instance.pieces = stream("a", "b")
    instance.tickets = asyncio.Semaphore(0)
    async with gateway(instance) as client:
        instance.tickets.release()
        response = await client.post(CHAT, json=BODY)
        for piece in instance.pieces:
            assert await response.content.readuntil(b"\n\n") == piece
            instance.tickets.release()


async def test_requests_go_to_the_upstream_of_their_model() -> None:
    """The list has all models; one that nobody names may go anywhere."""
    first, second = FakeInstance(), FakeInstance()
    first.models, second.models = ["a", "both"], ["b", "both"]
    async with gateway(first, second) as client:
        for model in ("a", "b", "b", "b"):
            await (await client.post(CHAT, json={"model": model})).read()
        assert models_of(first.received) == ["a"]
        assert models_of(second.received) == ["b", "b", "b"]
        for _ in range(2):
            await (await client.post(CHAT, json={"model": "both"})).read()
            await (await client.post(CHAT, json={"model": "none"})).read()
        assert len(first.received) + len(second.received) == 8
        assert min(len(first.received), len(second.received)) > 2
        listed = await (await client.get("/v1/models")).json()
    assert [each["id"] for each in listed["data"]] == ["a", "both", "b"]


def models_of(received: list[Received]) -> list[object]:
    return [each.fields["model"] for each in received]


async def test_model_whose_upstream_is_down() -> None:
    """It is asked nevertheless: others do not have the model."""
    first, second = FakeInstance(), FakeInstance()
    first.models, second.models = ["a"], ["b"]
    async with gateway(first, second, poll_seconds=0.02) as client:
        first.health = 503
        await until_number(client, "engine_up", 0, engine="0")
        response = await client.post(CHAT, json={"model": "a"})

    assert response.status == 200
    assert models_of(first.received) == ["a"]
    assert not second.received


async def test_upstreams_take_turns() -> None:
    """With one option whatever they do; without, the one with fewer requests."""
    busy, idle = FakeInstance(), FakeInstance()
    busy.running = 9
    async with busy.served(), idle.served():
        for balance, expected in (("round_robin", [2, 2]), ("least", [2, 6])):
            async with gateway(busy, idle, balance=balance) as client:
                for _ in range(4):
                    await (await client.post(CHAT, json=BODY)).read()
            assert [len(each.received) for each in (busy, idle)] == expected


async def test_span_of_the_gateway_is_the_upstreams_parent() -> None:
    """If spans are made of its requests, of the client's trace."""
    instance = FakeInstance()
    observers = ObserverConfig(trace_ratio=1.0)
    async with gateway(instance, observers=observers) as client:
        headers = {"traceparent": PARENT, "tracestate": "a=b"}
        await (await client.post(CHAT, json=BODY, headers=headers)).read()
        await (await client.post(CHAT, json=BODY)).read()

    continued, begun = (each.headers["traceparent"] for each in instance.received)
    assert continued.split("-")[1] == "a" * 32
    assert continued.split("-")[2] != "b" * 16
    assert instance.received[0].headers["tracestate"] == "a=b"
    assert begun.split("-")[1] not in {"a" * 32, "0" * 32}


async def test_key_is_for_polls_alone() -> None:
    """Clients' requests have their own keys, or none."""
    instance = FakeInstance()
    async with gateway(instance, instance_key="k") as client:
        await (await client.post(CHAT, json=BODY)).read()

    assert instance.looked_with == "Bearer k"
    assert "Authorization" not in instance.received[0].headers


def test_urls_stand_alone() -> None:
    """Unless they are the value of an option."""
    typed = "http://a --log-level info https://b --otlp-traces-endpoint http://c"

    found = " ".join(with_flags(typed.split()))

    assert found == (
        "--upstream http://a --log-level info --upstream https://b "
        "--otlp-traces-endpoint http://c"
    )


@pytest.mark.slow
async def test_nothing_large_is_imported() -> None:
    """Neither what computes, nor what reads models."""
    code = (
        "import sys, hookline_gateway.command as each\n"
        "from hookline_gateway.options import gateway_options\n"
        "gateway_options()\n"
        "large = {'torch', 'numba', 'transformers', 'tokenizers', 'numpy', 'zmq'}\n"
        "sys.exit(' '.join(large & sys.modules.keys()) or 0)"
    )
    process = await asyncio.create_subprocess_exec(
        *python_command("-c", code), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()

    assert (process.returncode, errors) == (0, b"")
