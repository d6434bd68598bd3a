"""Adapters are asked for as models are, and listed beside the model."""

from dataclasses import dataclass, replace

from hookline.frozen import frozen_map
from hookline_testing.scripted_server import FakeEngine, client_of


@dataclass(frozen=True, slots=True)
class Adapters:
    """What some engine says of the adapters that it serves."""

    adapters: tuple[str, ...]


def engine_with(*adapters: str) -> FakeEngine:
    engine = FakeEngine()
    section = frozen_map({"some": Adapters(adapters)})
    engine.facts = replace(engine.facts, sections=section)
    return engine


async def test_a_request_names_an_adapter_as_its_model() -> None:
    """The engine gets the name among the facts, and the client gets it back."""
    engine = engine_with("sql", "law")

    async with client_of(engine) as client:
        told = [
            await client.post("/v1/completions", json={"model": name, "prompt": "a"})
            for name in ("law", "fake", "other")
        ]
        bodies = [await each.json() for each in told]

    assert [each.status for each in told] == [200, 200, 404]
    assert [each["model"] for each in bodies[:2]] == ["law", "fake"]
    assert "available: 'fake', 'sql', 'law'" in bodies[2]["error"]["message"]
    assert [each.facts.lora for each in engine.streams] == ["law", None]


async def test_adapters_are_listed_with_the_model_that_they_change() -> None:
    """Each has a card of its own."""
    async with client_of(engine_with("sql")) as client:
        listing = await (await client.get("/v1/models")).json()
        card = await (await client.get("/v1/models/sql")).json()

    found = [(each["id"], each.get("parent")) for each in listing["data"]]
    assert found == [("fake", None), ("sql", "fake")]
    assert card == listing["data"][1]
