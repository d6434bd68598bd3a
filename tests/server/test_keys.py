"""API keys of a running server: scopes, permissions, changes of the file."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import TellExtensions, Told
from hookline.pages import PageResponse
from hookline_metrics.transfer_calls import TransferAnswer
from hookline_server.auth import key_ring
from hookline_server.auth.key import (
    ApiKey,
    KeySet,
    Permissions,
    PriorityRange,
    Scope,
    Tenant,
)
from hookline_server.auth.key_file import KeyFile, key_file
from hookline_server.auth.key_ring import KeyRing
from hookline_server.auth.key_table import digest_of
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

BODY = {"model": "fake", "prompt": "abc"}
CHAT = {"model": "fake", "messages": [{"role": "user", "content": "a"}]}
KEY = {"Authorization": "Bearer k"}
TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def with_key(**given: object) -> ServerSettings:
    key = ApiKey(name="one", **given)  # type: ignore[arg-type]
    return ServerSettings(
        api_keys=KeyFile("keys", KeySet({digest_of("k"): key})),
        enable_sleep_mode=True,
        enable_reset_prefix_cache=True,
        enable_scaling=True,
    )


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "invalid_api_key"),
        ({"Authorization": "Bearer stolen"}, "invalid_api_key"),
        (KEY, "permission_denied"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_strangers_are_reported_without_what_they_claim(
    path: str, headers: dict[str, str], code: str
) -> None:
    """
    Observers hear of the refusal; neither key, prompt, tenant nor trace is in it.
    """
    engine = FakeEngine()
    settings = replace(with_key(scopes={Scope.METRICS}), tenant_header="X-Tenant")
    claimed = {"X-Tenant": "other", "traceparent": TRACEPARENT, "X-Request-Id": "r1"}

    async with client_of(engine, settings) as client:
        response = await client.post(path, json=BODY, headers=headers | claimed)
        await client.post("/tokenize", json=BODY, headers=headers)

    assert response.status in {401, 403}
    [rejected] = engine.rejected
    [facts] = engine.rejected_facts
    assert rejected.kind == code
    assert "stolen" not in rejected.message
    assert facts.client_id == "r1"
    assert facts.tenant is None
    assert not facts.trace_context


@pytest.mark.parametrize(
    ("scopes", "opened"),
    [
        ({Scope.SERVE}, {"/v1/models", "/version", "/nowhere"}),
        ({Scope.METRICS}, {"/metrics"}),
        ({Scope.ADMIN}, {"/reset_prefix_cache", "/stalled", "/why"}),
        (
            set(Scope),
            {
                *("/v1/models", "/version", "/nowhere", "/metrics"),
                *("/reset_prefix_cache", "/stalled", "/why"),
            },
        ),
    ],
)
async def test_scopes_open_their_paths_only(
    scopes: set[Scope], opened: set[str]
) -> None:
    """
    A valid key without a path's scope is a 403, not a 401.
    """
    engine = FakeEngine()
    for page in ("/metrics", "/stalled", "/why"):
        engine.pages[page] = lambda _: PageResponse(body=b"", content_type="a/b")
    found = {}
    async with client_of(engine, with_key(scopes=frozenset(scopes))) as client:
        for method, path in (
            ("GET", "/v1/models"),
            ("GET", "/version"),
            ("GET", "/nowhere"),
            ("GET", "/metrics"),
            ("GET", "/stalled"),
            ("GET", "/why"),
            ("POST", "/reset_prefix_cache"),
        ):
            answer = await client.request(method, path, headers=KEY)
            found[path] = answer.status

    assert {path for path, status in found.items() if status != 403} == opened
    assert found["/nowhere"] in {403, 404}


@pytest.mark.parametrize(
    ("permissions", "fields", "denied"),
    [
        (Permissions(), {"priority": 1}, "priority"),
        (Permissions(), {"priority": -1}, "priority"),
        (Permissions(), {"priority": 0}, None),
        (Permissions(), {"priority": None}, None),
        (Permissions(), {"cache_salt": "a"}, None),
        (Permissions(), {"kv_transfer_params": {}}, "kv_transfer_params"),
        (Permissions(cache_salt=False), {"cache_salt": "a"}, "cache_salt"),
        (Permissions(kv_transfer_params=True), {"kv_transfer_params": {}}, None),
        (Permissions(priority=PriorityRange()), {"priority": -(2**40)}, None),
        (Permissions(priority=PriorityRange(2, 5)), {"priority": 0}, None),
        (Permissions(priority=PriorityRange(2, 5)), {"priority": 2}, None),
        (Permissions(priority=PriorityRange(2, 5)), {"priority": 5}, None),
        (Permissions(priority=PriorityRange(2, 5)), {"priority": 1}, "priority"),
        (Permissions(priority=PriorityRange(2, 5)), {"priority": 6}, "priority"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_fields_without_permission_are_refused(
    path: str,
    permissions: Permissions,
    fields: dict[str, object],
    denied: str | None,
) -> None:
    """
    The refusal is one 403 that names the field, and nothing reaches the engine.
    """
    engine = FakeEngine()
    body = CHAT if "chat" in path else BODY
    async with client_of(engine, with_key(permissions=permissions)) as client:
        answer = await client.post(path, json={**body, **fields}, headers=KEY)
        content = await answer.json()

    if denied is None:
        assert answer.status == 200
        return
    assert answer.status == 403
    assert content["error"]["code"] == "permission_denied"
    assert content["error"]["param"] == denied
    assert not engine.streams
    assert [each.kind for each in engine.rejected] == ["permission_denied"]


@pytest.mark.parametrize("settings", [ServerSettings(), ServerSettings(api_key="k")])
async def test_single_keys_and_open_servers_allow_everything(
    settings: ServerSettings,
) -> None:
    """
    Without a file of keys every field may be set, as in vLLM.
    """
    fields = {"priority": -5, "cache_salt": "a", "kv_transfer_params": {}}
    async with client_of(FakeEngine(), settings) as client:
        answer = await client.post(
            "/v1/completions", json={**BODY, **fields}, headers=KEY
        )

    assert answer.status == 200


@pytest.mark.parametrize(
    ("router", "status"), [("r", 200), ("k", 403), ("other", 403), ("", 403)]
)
async def test_proxies_may_set_transfer_params_for_clients(
    router: str, status: int
) -> None:
    """
    The key of a proxy grants it beside the client's, whose tenant counts.
    """
    engine = FakeEngine()
    allowed = Permissions(kv_transfer_params=True)
    keys = {
        digest_of("k"): ApiKey(name="client", tenant="acme"),
        digest_of("r"): ApiKey(name="router", permissions=allowed),
    }
    settings = ServerSettings(api_keys=KeyFile("keys", KeySet(keys)))
    body = {**BODY, "kv_transfer_params": {"do_remote_prefill": True}}
    answer = TransferAnswer(released_blocks=1)
    engine.replies[TellExtensions] = Told({KV_TRANSFER: answer})
    headers = {**KEY, "X-Hookline-Router-Key": router}
    async with client_of(engine, settings) as client:
        begun = await client.post("/v1/completions", json=body, headers=headers)
        released = await client.delete("/v1/kv_transfers/a", headers=headers)

    assert (begun.status, released.status) == (status, status)
    assert [each.facts.tenant for each in engine.streams] == ["acme"] * (status == 200)


@pytest.mark.parametrize(
    ("own", "tenant", "expected"), [(3.0, 2.0, 3.0), (None, 2.0, 2.0), (None, None, 1)]
)
async def test_weight_is_that_of_the_key_or_its_tenant(
    own: float | None, tenant: float | None, expected: float
) -> None:
    """
    The scheduler gets a key's own weight, else its tenant's, else 1.
    """
    engine = FakeEngine()
    key = ApiKey(name="one", tenant="acme", weight=own)
    tenants = {} if tenant is None else {"acme": Tenant(weight=tenant)}
    keys = KeyFile("keys", KeySet({digest_of("k"): key}, tenants))
    async with client_of(engine, ServerSettings(api_keys=keys)) as client:
        await client.post("/v1/completions", json=BODY, headers=KEY)

    assert engine.streams[0].facts.weight == expected


def test_metrics_token_alone_leaves_the_api_open() -> None:
    """
    It guards the pages; another key guards everything.
    """
    alone = KeyRing(metrics_token="t")  # noqa: S106 - of this test only
    both = KeyRing(metrics_token="t", api_key="k")  # noqa: S106

    assert (alone.guards(Scope.METRICS), alone.guards(Scope.SERVE)) == (True, False)
    assert all(both.guards(scope) for scope in Scope)


async def test_file_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    New keys open, removed ones do not; a mistake changes nothing, is measured, and is
    logged again now and then until it is mended.
    """
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(key_ring, "RELOAD_SECONDS", 0.01)
    file = tmp_path / "keys.yaml"
    file.write_text("first: acme")
    now = 0.0
    ring = KeyRing(file=key_file(str(file)), clock=lambda: now)
    following = ring.follow(web.Application())
    await anext(following)

    file.write_text("second: acme")
    await _until(lambda: ring.find("second"))
    assert ring.find("first") is None
    assert ring.stats().stale_seconds == 0.0
    file.write_text("third: [")
    await _until(lambda: _errors(caplog))
    now = key_ring.REPEAT_SECONDS - 1
    await asyncio.sleep(0.1)
    assert len(_errors(caplog)) == 1
    now = key_ring.REPEAT_SECONDS
    await _until(lambda: len(_errors(caplog)) == 2)
    assert ring.stats().stale_seconds == now
    assert ring.find("second") is not None
    file.unlink()
    await _until(lambda: len(_errors(caplog)) == 3)
    assert ring.stats().stale_seconds == now
    assert ring.find("second") is not None
    file.write_text("fourth: acme")
    await _until(lambda: ring.find("fourth"))
    assert ring.stats().stale_seconds == 0.0
    with pytest.raises(StopAsyncIteration):
        await anext(following)

    assert len(_errors(caplog)) == 3
    assert not [word for word in ("second", "third", "fourth") if word in caplog.text]


@pytest.mark.parametrize(
    ("text", "is_withdrawn"),
    [("keys: []", True), ("# none\n", False), ("", False), ("{}", False)],
)
async def test_all_keys_are_withdrawn_only_in_so_many_words(
    text: str, is_withdrawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A list without keys opens nothing; a file without a list is a mistake.
    """
    monkeypatch.setattr(key_ring, "RELOAD_SECONDS", 0.01)
    file = tmp_path / "keys.yaml"
    file.write_text("keys: [{name: a, key: k}]")
    now = iter(range(10**9))
    ring = KeyRing(file=key_file(str(file)), clock=lambda: float(next(now)))
    following = ring.follow(web.Application())
    await anext(following)

    file.write_text(text)
    await _until(lambda: ring.find("k") is None or ring.stats().stale_seconds)
    with pytest.raises(StopAsyncIteration):
        await anext(following)

    assert (ring.find("k") is None) is is_withdrawn
    assert ring.guards(Scope.SERVE)


async def test_changes_while_the_model_loads_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A file that was changed after its first reading is read again.
    """
    monkeypatch.setattr(key_ring, "RELOAD_SECONDS", 0.01)
    path = tmp_path / "keys.yaml"
    path.write_text("first: acme")
    file = key_file(str(path))
    path.write_text("second: acme")

    ring = KeyRing(file=file)
    following = ring.follow(web.Application())
    await anext(following)
    await _until(lambda: ring.find("second"))
    with pytest.raises(StopAsyncIteration):
        await anext(following)

    assert ring.find("first") is None


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - a file changes without an event
            await asyncio.sleep(0.01)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.getMessage() for each in caplog.records if each.levelno == logging.ERROR
    ]
