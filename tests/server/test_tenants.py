"""Tenants by API key or header."""

import pytest

from hookline.exceptions import ConfigError
from hookline_server.auth.key import ApiKey, KeySet
from hookline_server.auth.key_file import KeyFile
from hookline_server.auth.key_table import digest_of
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "a"}
KEYS = KeyFile(
    "keys.yaml",
    KeySet(
        {
            digest_of(f"key-of-{tenant}"): ApiKey(name=tenant, tenant=tenant)
            for tenant in ("acme", "umbrella")
        }
    ),
)


async def asked(
    settings: ServerSettings, headers: dict[str, str]
) -> tuple[int, str | None]:
    """Status and tenant of a request with these headers."""
    engine = FakeEngine()
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/completions", json=BODY, headers=headers)
    tenants = [stream.facts.tenant for stream in engine.streams]
    return response.status, tenants[0] if tenants else None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("acme", "acme"),
        ("Acme-1.2_3:4", "Acme-1.2_3:4"),
        ('a"c\tm{e}', "acme"),
        ("x" * 500, "x" * 64),
        ("<>", None),
        ("", None),
        ("é", None),
    ],
)
async def test_header_sets_the_tenant(given: str, expected: str | None) -> None:
    """
    The header's value, cleaned like a request id, is the request's tenant.
    """
    settings = ServerSettings(tenant_header="X-Tenant")

    assert await asked(settings, {"x-tenant": given}) == (200, expected)


async def test_tenants_are_off_by_default() -> None:
    """
    Without an option no header names a tenant.
    """
    assert await asked(ServerSettings(), {"X-Tenant": "acme"}) == (200, None)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("key-of-acme", (200, "acme")),
        ("key-of-umbrella", (200, "umbrella")),
        ("master", (200, None)),
        ("key-of-nobody", (401, None)),
        ("kéy", (401, None)),
        (None, (401, None)),
    ],
)
async def test_key_sets_the_tenant(
    key: str | None, expected: tuple[int, str | None]
) -> None:
    """
    A tenant's key is accepted like the API key, and sets the tenant.
    """
    settings = ServerSettings(api_key="master", api_keys=KEYS)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    assert await asked(settings, headers) == expected


async def test_keys_alone_guard_the_api() -> None:
    """
    If tenants have keys, requests without a key are refused.
    """
    assert (await asked(ServerSettings(api_keys=KEYS), {}))[0] == 401


@pytest.mark.parametrize(
    ("key", "expected"), [("key-of-acme", "acme"), ("master", "umbrella")]
)
async def test_key_wins_over_the_header(key: str, expected: str) -> None:
    """
    A key's tenant cannot be overruled by a header; a key without one leaves it to it.
    """
    settings = ServerSettings(api_key="master", api_keys=KEYS, tenant_header="X-Tenant")
    headers = {"Authorization": f"Bearer {key}", "X-Tenant": "umbrella"}

    assert await asked(settings, headers) == (200, expected)


@pytest.mark.parametrize("name", ["X Tenant", "", "Ténant", "a:b"])
def test_header_needs_a_name(name: str) -> None:
    """
    What is no header's name is refused.
    """
    with pytest.raises(ConfigError, match=r"tenant-header: .* is not the name"):
        ServerSettings(tenant_header=name)


@pytest.mark.parametrize("name", ["Authorization", "cookie"])
def test_header_with_secrets_names_no_tenant(name: str) -> None:
    """
    Secrets of clients become no labels.
    """
    with pytest.raises(ConfigError, match="secrets"):
        ServerSettings(tenant_header=name)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("headers", "expected"), [({"X-Tenant": "acme"}, "acme"), ({}, "")]
)
async def test_texts_are_tokenized_in_turn(
    path: str, headers: dict[str, str], expected: str
) -> None:
    """
    Clients' addresses take turns, and the tenants of each.
    """
    engine = FakeEngine()
    body = {"model": "fake", "messages": [{"role": "user", "content": "a"}]}
    settings = ServerSettings(tenant_header="X-Tenant")
    async with client_of(engine, settings) as client:
        await client.post(path, json={**BODY, **body}, headers=headers)
        await client.post("/tokenize", json={"prompt": "a"}, headers=headers)

    assert set(engine.clients) == {("peer:127.0.0.1", expected)}
