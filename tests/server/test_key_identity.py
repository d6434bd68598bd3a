"""A key is known by its digest: names, places in the file and claims change nothing."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request

from hookline_server.auth import key_ring
from hookline_server.auth.key_file import key_file
from hookline_server.auth.key_ring import KEY_RING
from hookline_server.auth.payer import payer_of
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

Client = TestClient[Request, Application]
Change = Callable[[str], object]

LISTED = """keys:
- {{name: {names[0]}, key: sk-a, limits: {{requests_per_minute: 1}}}}
- {{name: {names[1]}, key: sk-b, limits: {{requests_per_minute: 1}}}}
"""
BODY = {"model": "fake", "prompt": "abc"}


@asynccontextmanager
async def served(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Client, FakeEngine, Change]]:
    """A server with a file of keys, and what changes the file."""
    monkeypatch.setattr(key_ring, "RELOAD_SECONDS", 0.01)
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    engine = FakeEngine(("Hello",))
    given = ServerSettings(api_keys=key_file(str(file)), **settings)
    async with client_of(engine, given) as client:
        yield client, engine, file.write_text


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - a file changes without an event
            await asyncio.sleep(0.01)


def of_key(key: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}", **more}


async def stored(client: Client, key: str) -> str:
    """Stores a response of a key; returns its path."""
    answer = await client.post(
        "/v1/responses", json={"input": "Hi"}, headers=of_key(key)
    )
    assert answer.status == 200, await answer.text()
    return f"/v1/responses/{(await answer.json())['id']}"


async def status(client: Client, path: str, key: str) -> int:
    return (await client.get(path, headers=of_key(key))).status


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sk-a: acme\nsk-b: acme\n", "sk-b: acme\nsk-c: acme\n"),
        (
            "keys: [{name: x, key: sk-a}, {name: x, key: sk-b}]",
            "keys: [{name: x, key: sk-b}, {name: x, key: sk-c}]",
        ),
    ],
)
async def test_a_changed_file_gives_no_key_the_texts_of_another(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Neither the key that takes a removed one's place nor one with its name or tenant;
    a key that was removed reads its own again when it comes back.
    """
    async with served(before, tmp_path, monkeypatch) as (client, _, change):
        ring = client.app[KEY_RING]
        first, second = await stored(client, "sk-a"), await stored(client, "sk-b")
        change(after)
        await until(lambda: ring.find("sk-c") is not None)
        while_removed = [
            await status(client, path, key)
            for path in (first, second)
            for key in ("sk-a", "sk-b", "sk-c")
        ]
        change(before)
        await until(lambda: ring.find("sk-a") is not None)

        assert while_removed == [401, 404, 404, 401, 200, 404]
        assert await status(client, first, "sk-a") == 200
        assert await status(client, first, "sk-b") == 404


@pytest.mark.parametrize(
    "sent",
    ["", "sk", "sk-", "sk-aa", "SK-A", "x", "' OR '1'='1", "*", "sk-a sk-b",
     hashlib.sha256(b"sk-a").hexdigest(), "a" * 7000],
)  # fmt: skip
async def test_nothing_but_a_key_opens(
    sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No part of a key, no more than it, not its digest and name, and no query.
    """
    text = "keys: [{name: x, key: sk-a}]"
    async with served(text, tmp_path, monkeypatch) as (client, _, _):
        statuses = [
            (await client.get("/v1/models", headers=headers)).status
            for headers in ({"x-api-key": sent}, of_key(sent), of_key("sk-a"))
        ]

    assert statuses == [401, 401, 200]


async def test_names_do_not_share_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Two keys of one name have a budget each, and a key keeps its own when names change.
    """
    same = LISTED.format(names=("x", "x"))
    async with served(same, tmp_path, monkeypatch) as (client, _, change):
        ring = client.app[KEY_RING]

        async def asked(key: str) -> int:
            answer = await client.post(
                "/v1/completions", json=BODY, headers=of_key(key)
            )
            return answer.status

        found = [await asked("sk-a") for _ in range(2)] + [await asked("sk-b")]
        change(LISTED.format(names=("y", "z")))
        await until(lambda: (found := ring.find("sk-a")) and found.name == "y")

        assert found == [200, 429, 200]
        assert await asked("sk-a") == 429


async def test_a_claimed_tenant_brings_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It has neither the weight nor the budget of the tenant that it names, and divides
    the share of its key; a key that may name tenants has all of that.
    """
    text = """keys:
- {name: plain, key: sk-a}
- {name: gateway, key: sk-g, permissions: {tenant: true}}
- {name: own, key: sk-o, tenant: acme}
tenants: {acme: {weight: 5, limits: {requests_per_minute: 1}}}
"""
    found = []
    async with served(text, tmp_path, monkeypatch, tenant_header="X-Tenant") as (
        client,
        engine,
        _,
    ):
        for key in ("sk-a", "sk-a", "sk-g", "sk-o"):
            headers = of_key(key, **{"X-Tenant": "acme"})
            answer = await client.post("/v1/completions", json=BODY, headers=headers)
            found.append(answer.status)
        facts = [stream.facts for stream in engine.streams]
        ids = {
            key: payer_of(client.app[KEY_RING].find(key), None)
            for key in ("sk-a", "sk-g")
        }

    assert found == [200, 200, 200, 429]
    assert [each.tenant for each in facts] == ["acme"] * 3
    assert [each.weight for each in facts] == [1.0, 1.0, 5.0]
    assert [each.client for each in facts] == [
        (ids["sk-a"], "acme"),
        (ids["sk-a"], "acme"),
        ("tenant:acme", ids["sk-g"]),
    ]


async def test_without_keys_an_address_pays_whatever_it_claims() -> None:
    """
    Tenants, sessions and request ids of one address are of one payer.
    """
    engine = FakeEngine()
    async with client_of(engine, ServerSettings(tenant_header="X-Tenant")) as client:
        for number in range(3):
            await client.post(
                "/v1/completions",
                json={**BODY, "user": f"u{number}", "cache_salt": f"s{number}"},
                headers={
                    "X-Tenant": f"t{number}",
                    "X-Session-Id": f"s{number}",
                    "X-Request-Id": f"r{number}",
                    "X-Forwarded-For": f"10.0.0.{number}",
                },
            )

    assert [stream.facts.client for stream in engine.streams] == [
        ("peer:127.0.0.1", f"t{number}") for number in range(3)
    ]


@pytest.mark.parametrize(
    ("address", "payer"),
    [
        ("10.0.0.1", "peer:10.0.0.1"),
        ("2001:db8:1:2:aaaa::1", "peer:2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::9", "peer:2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "peer:10.0.0.1"),
        (None, "peer:"),
        ("odd:name", "peer:odd:name"),
    ],
)
def test_a_client_without_a_key_is_its_network(address: str | None, payer: str) -> None:
    """
    Of IPv6 a client can choose the last 64 bits, which make it no other.
    """
    assert payer_of(None, address) == payer
