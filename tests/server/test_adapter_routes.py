"""Adapters are loaded, unloaded, pinned and listed by clients."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from hookline.frozen import frozen_map
from hookline_server.adapters import AdapterToLoad, Ask, ServedAdapter
from hookline_server.api_error import ApiError
from hookline_server.auth.key import Scope
from hookline_server.auth.route_scopes import RouteScopes
from hookline_server.handlers.adapters import ADAPTER_ROUTES
from hookline_testing.scripted_server import FakeEngine, client_of


@dataclass
class Manager:
    """Keeps what it is asked for, and fails for the name `broken`."""

    loaded: dict[str, AdapterToLoad] = field(default_factory=dict)
    calls: list[tuple[object, ...]] = field(default_factory=list)

    async def find(self, ask: Ask, name: str) -> bool:
        del ask
        return name in self.loaded

    async def load(
        self, ask: Ask, adapter: AdapterToLoad, taken: Sequence[str]
    ) -> None:
        del ask
        if adapter.name == "broken":
            raise ApiError(400, "q_proj is not finite", code="invalid_adapter")
        self.calls.append(("load", adapter, tuple(taken)))
        self.loaded[adapter.name] = adapter

    async def unload(self, ask: Ask, name: str, *, aborts: bool) -> None:
        del ask
        self.calls.append(("unload", name, aborts))
        self.loaded.pop(name)

    async def pin(self, ask: Ask, name: str, *, is_pinned: bool) -> None:
        del ask
        self.loaded[name] = AdapterToLoad(name=name, path="/a", is_pinned=is_pinned)

    async def served(self, ask: Ask) -> Sequence[ServedAdapter]:
        del ask
        return [
            ServedAdapter(
                name=each.name,
                path=each.path,
                digest="0" * 64,
                rank=8,
                targets=("q_proj",),
                parent=each.base_model_name,
                level="cpu",
                pinned=each.is_pinned,
            )
            for each in self.loaded.values()
        ]

    def path_of(self, name: str) -> str:
        return self.loaded[name].path

    def parent_of(self, name: str) -> str | None:
        return self.loaded[name].base_model_name


@dataclass
class Managed:
    """A section of facts whose adapters come and go."""

    kept: Manager

    @property
    def adapters(self) -> tuple[str, ...]:
        return tuple(self.kept.loaded)

    def manager(self) -> Manager:
        return self.kept


def engine_with(manager: Manager) -> FakeEngine:
    engine = FakeEngine()
    section = frozen_map({"some": Managed(manager)})
    engine.facts = replace(engine.facts, sections=section)
    return engine


LOAD = {
    "lora_name": "sql",
    "lora_path": "team/sql",
    "load_inplace": True,
    "base_model_name": "parent",
    "pinned": True,
}


@pytest.mark.parametrize("prefix", ["/v1", ""])
async def test_adapters_are_loaded(prefix: str) -> None:
    """All that a body says reaches the manager; then requests and cards know it."""
    manager = Manager()

    async with client_of(engine_with(manager)) as client:
        answer = await client.post(f"{prefix}/load_lora_adapter", json=LOAD)
        told = await answer.text()
        card = await (await client.get("/v1/models/sql")).json()
        listed = await (await client.get("/v1/adapters")).json()

    assert answer.status == 200
    expected = AdapterToLoad(
        name="sql",
        path="team/sql",
        base_model_name="parent",
        is_pinned=True,
        replaces=True,
    )
    assert manager.calls == [("load", expected, ("fake",))]
    if prefix:
        assert told == "Success: LoRA adapter 'sql' added successfully."
    else:
        assert '"loaded_adapters":{"sql":"team/sql"}' in told
    assert (card["root"], card["parent"]) == ("team/sql", "parent")
    assert [each["name"] for each in listed["data"]] == ["sql"]


@pytest.mark.parametrize("prefix", ["/v1", ""])
async def test_adapters_are_unloaded(prefix: str) -> None:
    """It says whether requests are waited for, which is so by default."""
    manager = Manager({name: AdapterToLoad(name=name, path="/a") for name in "ab"})

    async with client_of(engine_with(manager)) as client:
        path = f"{prefix}/unload_lora_adapter"
        first = await client.post(path, json={"lora_name": "a"})
        second = await client.post(path, json={"lora_name": "b", "mode": "abort"})
        wrong = await client.post(path, json={"lora_name": "b", "mode": "now"})

    assert [each.status for each in (first, second, wrong)] == [200, 200, 400]
    assert manager.calls == [("unload", "a", False), ("unload", "b", True)]


async def test_adapters_are_pinned() -> None:
    """By name, and no longer."""
    manager = Manager({"a": AdapterToLoad(name="a", path="/a")})

    async with client_of(engine_with(manager)) as client:
        pinned = await (await client.post("/v1/adapters/a/pin")).json()
        after = await (await client.delete("/v1/adapters/a/pin")).json()

    assert [each["data"][0]["pinned"] for each in (pinned, after)] == [True, False]


async def test_what_cannot_be_loaded_is_an_error() -> None:
    """Of the manager, of the body, and where adapters are off."""
    broken = {"lora_name": "broken", "lora_path": "x"}
    async with client_of(engine_with(Manager())) as client:
        failed = await client.post("/v1/load_lora_adapter", json=broken)
        reason = await failed.text()
        empty = await client.post("/v1/load_lora_adapter", json={"lora_name": ""})
    async with client_of(FakeEngine()) as client:
        off = await client.post("/v1/load_lora_adapter", json=broken)
        why = await off.text()

    assert (failed.status, empty.status, off.status) == (400, 400, 400)
    assert "q_proj is not finite" in reason
    assert "--enable-lora" in why


async def test_a_wrong_name_shows_the_nearest() -> None:
    """Of hundreds of adapters, those that may have been meant."""
    names = [f"customer-{number}" for number in range(300)]
    manager = Manager({name: AdapterToLoad(name=name, path="/a") for name in names})

    async with client_of(engine_with(manager)) as client:
        answers = [
            await client.post("/v1/completions", json={"model": name, "prompt": "a"})
            for name in ("custmer-17", "zzz", "x" * 10_000)
        ]
        messages = [(await each.json())["error"]["message"] for each in answers]

    assert [each.status for each in answers] == [404] * 3
    assert "did you mean 'customer-17'" in messages[0]
    assert "and 281 more" in messages[1]
    assert max(map(len, messages)) < 1000


def test_changes_need_an_administrator() -> None:
    """Listing is for all."""
    scopes = RouteScopes(Scope.SERVE)
    found = {
        (each.method, each.path): scopes.of_path(each.path) for each in ADAPTER_ROUTES
    }

    assert found.pop(("GET", "/v1/adapters")) is Scope.SERVE
    assert set(found.values()) == {Scope.ADMIN}
