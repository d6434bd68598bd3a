"""Adapters are loaded and unloaded in all engines, or in none."""

import asyncio
from typing import TypeVar, cast

import pytest

from hookline.engine.commands import EngineCommand, TellExtensions
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_lora.facts import KnownAdapters, LoraFacts
from hookline_lora.front_end.manager import LoraManager
from hookline_lora.messages import ListAdapters
from hookline_server.adapters import AdapterToLoad
from hookline_server.api_error import ApiError
from hookline_testing.adapter_engine import AdapterEngine, AdapterFiles

R = TypeVar("R")
BASE = ("base",)


class Engines:
    """Engines that compute whenever they are asked."""

    def __init__(self, *engines: AdapterEngine) -> None:
        self.engines = list(engines)

    async def ask(self, command: EngineCommand[R], /) -> tuple[R, ...]:
        assert isinstance(command, TellExtensions)
        replies = [each.core.tell(command) for each in self.engines]
        for each in self.engines:
            each.step()
        await asyncio.sleep(0)
        return cast("tuple[R, ...]", tuple(replies))

    def names(self) -> list[list[str]]:
        """The adapters that requests may use, by engine."""
        answers = [each.tell(ListAdapters()) for each in self.engines]
        return [sorted(answer.adapters) for answer in answers]

    def has_loadings(self) -> bool:
        return any(each.tell(ListAdapters()).loading for each in self.engines)


def engine(files: AdapterFiles | None = None) -> AdapterEngine:
    return AdapterEngine(LoraConfig(max_loras=2, max_cpu_loras=8), files=files)


def manager() -> tuple[LoraFacts, LoraManager]:
    facts = LoraFacts(max_loras=2, max_lora_rank=16)
    return facts, LoraManager(facts)


def to_load(name: str, path: str, *, replaces: bool = False) -> AdapterToLoad:
    return AdapterToLoad(name=name, path=path, replaces=replaces)


@pytest.fixture(autouse=True)
def _any_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may load from anywhere: the engines here know their files."""
    where = "hookline_lora.front_end.manager.folder_of_client"
    monkeypatch.setattr(where, lambda path, *_: path)


async def test_an_adapter_is_loaded_in_every_engine() -> None:
    """Requests may use it once all have it, and it is listed with what they do."""
    engines, (facts, loads) = Engines(engine(), engine()), manager()

    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)

    assert engines.names() == [["sql"], ["sql"]]
    assert facts.adapters == ("sql",)
    [shown] = await loads.served(engines.ask)
    assert (shown.name, shown.path, shown.rank) == ("sql", "/a/sql", 8)


async def test_an_adapter_that_one_engine_cannot_read_is_loaded_in_none() -> None:
    """The reason is told, and what was prepared elsewhere is forgotten."""
    broken = AdapterFiles()
    broken.contents["/a/sql"] = "broken"
    engines, (facts, loads) = Engines(engine(), engine(broken)), manager()

    with pytest.raises(ApiError, match="not finite") as error:
        await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)

    assert error.value.status == 400
    assert engines.names() == [[], []]
    assert facts.adapters == ()
    assert not engines.has_loadings()


async def test_engines_that_read_different_files_do_not_serve_them() -> None:
    """A folder may have other contents on another machine."""
    other = AdapterFiles()
    other.contents["/a/sql"] = "other"
    engines, (facts, loads) = Engines(engine(), engine(other)), manager()

    with pytest.raises(ApiError, match="different files"):
        await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)

    assert engines.names() == [[], []]
    assert facts.adapters == ()


@pytest.mark.parametrize(
    ("name", "reason"), [("base", "base model"), ("sql", "loaded already")]
)
async def test_names_that_are_taken_are_refused(name: str, reason: str) -> None:
    """Those of the base model and of another adapter."""
    engines, (_, loads) = Engines(engine()), manager()
    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)

    with pytest.raises(ApiError, match=reason):
        await loads.load(engines.ask, to_load(name, "/a/new"), BASE)


async def test_a_reload_takes_the_place_of_the_old_one_only_if_it_succeeds() -> None:
    """A reload that fails leaves the old one serving."""
    files = AdapterFiles()
    engines, (facts, loads) = Engines(engine(files)), manager()
    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)
    before = facts.known.refs["sql"].digest

    files.contents["/a/sql"] = "broken"
    with pytest.raises(ApiError):
        await loads.load(engines.ask, to_load("sql", "/a/sql", replaces=True), BASE)
    assert facts.known.refs["sql"].digest == before

    files.contents["/a/sql"] = "second"
    await loads.load(engines.ask, to_load("sql", "/a/sql", replaces=True), BASE)
    assert facts.known.refs["sql"].digest == "second"


async def test_unloading_waits_for_requests() -> None:
    """It ends once the last one has ended, and no new one is accepted meanwhile."""
    engines, (facts, loads) = Engines(engine()), manager()
    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)
    [first] = engines.engines
    first.send(1, "sql", 5, path="/a/sql")
    first.step()

    await loads.unload(engines.ask, "sql", aborts=False)

    assert facts.adapters == ()
    assert first.finished[1].reason == "length"
    with pytest.raises(ApiError, match="no adapter") as error:
        await loads.unload(engines.ask, "sql", aborts=False)
    assert error.value.status == 404


async def test_unloading_can_abort() -> None:
    """Running requests end at once."""
    engines, (_, loads) = Engines(engine()), manager()
    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)
    [first] = engines.engines
    first.send(1, "sql", 1000, path="/a/sql")
    first.step()

    await loads.unload(engines.ask, "sql", aborts=True)

    assert first.finished[1].reason == "abort"


async def test_an_engine_that_is_new_is_told_what_was_loaded() -> None:
    """It takes the place of one that has ended, and knows no adapter."""
    engines, (facts, loads) = Engines(engine(), engine()), manager()
    await loads.load(engines.ask, to_load("sql", "/a/sql"), BASE)
    engines.engines[1] = engine()
    assert engines.names() == [["sql"], []]

    await loads.load(engines.ask, to_load("legal", "/a/legal"), BASE)

    assert engines.names() == [["legal", "sql"], ["legal", "sql"]]
    assert set(facts.adapters) == {"legal", "sql"}


async def test_another_server_hears_of_a_name_when_it_is_asked_for() -> None:
    """Each server has its own knowledge of the engines, which is refreshed."""
    engines = Engines(engine())
    (_, one), (facts, other) = manager(), manager()
    await one.load(engines.ask, to_load("sql", "/a/sql"), BASE)

    assert "sql" not in facts.known.refs
    assert await other.find(engines.ask, "sql")
    assert "sql" in facts.known.refs
    assert not await other.find(engines.ask, "unknown")


async def test_what_another_server_loads_again_is_served_again() -> None:
    """Unloading counts for engines to come, until an engine that was told has it."""
    files = AdapterFiles()
    config = LoraConfig(
        max_loras=2,
        max_cpu_loras=8,
        modules=(AdapterSource(name="sql", path="/a/sql"),),
    )

    def started() -> AdapterEngine:
        return AdapterEngine(config, files=files)

    engines = Engines(started())
    [ref] = [
        each.ref for each in engines.engines[0].tell(ListAdapters()).adapters.values()
    ]
    known = KnownAdapters(0, {"sql": ref})
    one, other = (
        LoraManager(LoraFacts(max_loras=2, max_lora_rank=16, known=known)) for _ in "ab"
    )
    await one.unload(engines.ask, "sql", aborts=False)
    engines.engines[0] = started()
    await one.load(engines.ask, to_load("legal", "/a/legal"), BASE)
    assert engines.names() == [["legal"]]

    await other.load(engines.ask, to_load("sql", "/a/sql"), BASE)
    await one.load(engines.ask, to_load("poems", "/a/poems"), BASE)

    assert engines.names() == [["legal", "poems", "sql"]]
    assert await one.find(engines.ask, "sql")
