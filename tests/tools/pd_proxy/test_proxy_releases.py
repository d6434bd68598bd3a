"""KV that no decode instance takes is released where it is kept, and at once."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from hookline_faults.scripted_instances import (
    Client,
    FakeInstance,
    dead_instance,
    numbers_of,
    routed,
    transfer_id_of,
    until,
)

PATH = "/v1/completions"
BODY = {"model": "m", "prompt": "Hello", "max_tokens": 7}
DONE = 'releases_total{outcome="done"}'
WAIT_SECONDS = 30.0


def failing(status: int) -> FakeInstance:
    instance = FakeInstance()
    instance.status = status
    return instance


def breaking() -> FakeInstance:
    instance = FakeInstance()
    instance.cut_after = 1
    return instance


async def told(prefill: FakeInstance) -> list[str]:
    await asyncio.wait_for(prefill.told.wait(), WAIT_SECONDS)
    return prefill.released


async def leave(client: Client, busy: FakeInstance) -> None:
    """A client that leaves while an instance works for it."""
    asking = asyncio.create_task(client.post(PATH, json=BODY))
    await asyncio.wait_for(busy.arrived.wait(), WAIT_SECONDS)
    asking.cancel()


UNWILLING: dict[str, Callable[[], FakeInstance]] = {
    "refuses": lambda: failing(400),
    "is full": lambda: failing(503),
    "fails": lambda: failing(500),
    "is gone": dead_instance,
    "breaks off": breaking,
}


@pytest.mark.parametrize("how", UNWILLING)
async def test_prompt_that_no_decoder_takes_is_released(how: str) -> None:
    """Whether it refuses, cannot be reached, or dies with the prompt."""
    prefill, decode = FakeInstance(), UNWILLING[how]()

    async with routed([prefill], [decode], poll_seconds=60) as client:
        response = await client.post(PATH, json=BODY)
        await response.read()
        released = await told(prefill)
        numbers = await until(client, DONE)

    assert released == [transfer_id_of(prefill)]
    assert numbers[DONE] == 1


@pytest.mark.parametrize("phase", ["prefill", "decode"])
async def test_client_that_leaves_has_its_prompt_released(phase: str) -> None:
    """Also in the first phase: the instance may have computed it by then."""
    prefill, decode = FakeInstance(), FakeInstance()
    busy = prefill if phase == "prefill" else decode
    busy.gate.clear()

    async with routed([prefill], [decode]) as client:
        await leave(client, busy)
        released = await told(prefill)

    assert released == [transfer_id_of(prefill)]


@pytest.mark.parametrize("answer", [None, b"{"])
async def test_prompt_is_released_if_its_parameters_do_not_come(
    answer: bytes | None,
) -> None:
    """The decode instance computes it, and nobody knows where it is kept."""
    prefill, decode = FakeInstance(), FakeInstance()
    if answer is None:
        prefill.gate.clear()
    else:
        prefill.transfer_params = answer
    limit = 0.2 if answer is None else 30.0

    async with routed([prefill], [decode], prefill_timeout=limit) as client:
        response = await client.post(PATH, json=BODY)
        released = await told(prefill)

    assert response.status == 200
    assert released == [transfer_id_of(prefill)]


async def test_each_instance_that_may_keep_a_prompt_is_told() -> None:
    """One whose answer was unusable at once; the one that was used, in the end."""
    bad, good, decode = FakeInstance(), FakeInstance(), failing(400)
    bad.transfer_params = b"{"

    async with routed([bad, good], [decode], poll_seconds=60) as client:
        await client.post(PATH, json=BODY)
        released = [await told(bad), await told(good)]

    assert released == [[transfer_id_of(bad)], [transfer_id_of(good)]]
    assert transfer_id_of(bad) == transfer_id_of(good)


@pytest.mark.parametrize("has_retry", [False, True])
async def test_prompt_that_is_taken_is_not_released(*, has_retry: bool) -> None:
    """The decode instance has it freed itself, be it the first one or not."""
    prefill, decode = FakeInstance(), [FakeInstance()]
    if has_retry:
        decode.insert(0, failing(500))

    async with routed([prefill], decode, poll_seconds=60) as client:
        response = await client.post(PATH, json=BODY)
        await response.read()
        numbers = await until(client, "prefill_seconds_count")

    assert response.status == 200
    assert not prefill.released
    assert not [name for name in numbers if "releases" in name]


@pytest.mark.parametrize("make", [dead_instance, lambda: failing(400)])
async def test_refused_prefill_keeps_nothing(make: Callable[[], FakeInstance]) -> None:
    """Nor does an instance that cannot be reached; so nothing is released."""
    prefill, decode = make(), failing(400)

    async with routed([prefill], [decode], poll_seconds=60) as client:
        await client.post(PATH, json=BODY)
        numbers = await numbers_of(client)

    assert not prefill.released
    assert not [name for name in numbers if "releases" in name]


@pytest.mark.parametrize(
    ("statuses", "outcome", "num_released"),
    [
        ([503, 502], "done", 1),
        ([404], "unknown", 0),
        ([503] * 4, "failed", 0),
        ([403], "failed", 0),
    ],
)
async def test_release_is_tried_again(
    statuses: list[int], outcome: str, num_released: int
) -> None:
    """A busy instance gets it again; one that does not know it, or refuses, not."""
    prefill, decode = FakeInstance(), failing(400)
    prefill.release_statuses = list(statuses)

    async with routed([prefill], [decode], poll_seconds=60) as client:
        await client.post(PATH, json=BODY)
        await until(client, f'releases_total{{outcome="{outcome}"}}')

    assert len(prefill.released) == num_released


async def test_proxy_that_ends_releases_first() -> None:
    """What its requests, which end with it, have left; the instances stay."""
    prefill, decode = FakeInstance(), FakeInstance()
    decode.gate.clear()

    async with prefill.served(), decode.served():
        async with routed([prefill], [decode]) as client:
            asking = asyncio.create_task(client.post(PATH, json=BODY))
            await asyncio.wait_for(decode.arrived.wait(), WAIT_SECONDS)
            asking.cancel()

        assert prefill.released == [transfer_id_of(prefill)]


async def test_prompt_longer_than_the_decoders_context_is_not_prefilled() -> None:
    """Token ids are counted here; a text's instance gets the decoder's limit."""
    prefill, decode = FakeInstance(), FakeInstance()
    decode.max_model_len = 4
    prompts: list[object] = [[1] * 4, [[1] * 5]]

    async with routed([prefill], [decode]) as client:
        await decode.looks(2)
        for prompt in prompts:
            await client.post(PATH, json={**BODY, "prompt": prompt})
        numbers = await numbers_of(client)
        await client.post(PATH, json={**BODY, "prompt": [1] * 3})

    assert numbers['plain_total{reason="long_prompt"}'] == 2
    [received] = prefill.received
    params = received.fields["kv_transfer_params"]
    assert json.loads(json.dumps(params))["remote_max_model_len"] == 4


async def test_only_instance_is_tried_though_it_was_down() -> None:
    """A decoder that has restarted is used before the next poll finds it."""
    decode = FakeInstance()
    life = AsyncExitStack()
    await life.enter_async_context(decode.served())

    async with life, routed([], [decode], poll_seconds=600) as client:
        await decode.looks(1)
        await life.aclose()
        statuses = [(await client.post(PATH, json=BODY)).status for _ in range(2)]
        down = (await client.get("/health")).status
        async with decode.served():
            response = await client.post(PATH, json=BODY)
            await response.read()
            up = (await client.get("/health")).status

    assert statuses == [502, 503]
    assert (down, response.status, up) == (503, 200, 200)


async def test_proxy_is_not_ready_before_an_instance_has_answered() -> None:
    """It takes requests, but nobody has seen that they can be served."""
    decode = dead_instance()

    async with routed([], [decode]) as client:
        health = await client.get("/health")

    assert health.status == 503
