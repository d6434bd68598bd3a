"""`/openapi.json` and `/docs`: complete, true, and not for strangers."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hookline.pages import PageResponse
from hookline_server.app import create_app
from hookline_server.auth.key import ApiKey, KeySet, Scope
from hookline_server.auth.key_file import KeyFile
from hookline_server.auth.key_table import digest_of
from hookline_server.openapi import description
from hookline_server.openapi.document import described_routes, openapi_document
from hookline_server.openapi.operation import operation_of
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

EVERYTHING = ServerSettings(
    enable_sleep_mode=True, enable_reset_prefix_cache=True, enable_scaling=True
)
CONSTRAINTS: dict[str, Callable[[Any], object]] = {
    "minimum": lambda bound: bound - 1,
    "maximum": lambda bound: bound + 1,
    "exclusiveMinimum": lambda bound: bound,
    "minLength": lambda bound: "a" * (bound - 1),
    "maxLength": lambda bound: "a" * (bound + 1),
    "maxItems": lambda bound: [1] * (bound + 1),
}
"""A value beside each bound."""

HELLO = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, object]] = {
    "/v1/completions": {"prompt": [1]},
    "/v1/chat/completions": {"messages": HELLO},
    "/v1/messages": {"messages": HELLO, "max_tokens": 1},
    "/v1/embeddings": {"input": [1]},
    "/pooling": {"input": [1]},
}


def document(settings: ServerSettings = EVERYTHING) -> Any:
    engine = FakeEngine()
    engine.pages["/own/page"] = lambda _: PageResponse(body=b"", content_type="a/b")
    made = openapi_document(create_app(engine, settings))
    return json.loads(json.dumps(made))


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a document."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from parts(each)


def test_every_route_declares_what_it_is() -> None:
    """
    A handler without a description makes this fail, and tells its name.
    """
    app = create_app(FakeEngine(), EVERYTHING)
    missing = []
    for route in app.router.routes():
        try:
            operation_of(route.handler)
        except KeyError:
            missing.append(f"{route.method} {route.resource}: {route.handler}")

    assert not missing, "decorate these handlers with @described"


def test_document_has_exactly_what_is_served() -> None:
    """
    Optional routes and pages of loggers are in it if they exist.
    """
    bare, full = document(ServerSettings()), document()

    app = create_app(FakeEngine(), EVERYTHING)
    routes = {(each.method.lower(), each.path) for each in described_routes(app)}
    found = {(method, path) for path, item in full["paths"].items() for method in item}
    assert found == {*routes, ("get", "/own/page")}
    assert "/sleep" not in bare["paths"]
    assert "/metrics" not in bare["paths"]  # a 404 that explains itself
    assert full["paths"]["/sleep"]["post"]["parameters"][0]["schema"]["enum"] == [1, 2]


def test_document_is_valid() -> None:
    """
    References lead somewhere, schemas are schemas, and names of operations differ.
    """
    made = document()

    assert made["openapi"].startswith("3.1.")
    names = {
        f"#/components/{kind}/{name}"
        for kind, group in made["components"].items()
        for name in group
    }
    references = {
        each["$ref"] for each in parts(made) if isinstance(each.get("$ref"), str)
    }
    assert references <= names
    assert not [name for name in made["components"]["schemas"] if "." in name]
    for schema in made["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    operations = [each for item in made["paths"].values() for each in item.values()]
    ids = [each["operationId"] for each in operations]
    assert len(ids) == len(set(ids))
    for path, item in made["paths"].items():
        names_in_path = re.findall(r"\{(\w+)\}", path)
        for each in item.values():
            given = [one for one in each["parameters"] if one.get("in") == "path"]
            assert [one["name"] for one in given] == names_in_path
            assert each["summary"].endswith(".")


def outside_of_bounds() -> Iterator[tuple[str, str, object]]:
    """Values that the document forbids; 64-bit ones have tests of their own."""
    made = document()
    schemas = made["components"]["schemas"]
    for path in BODIES:
        operation = made["paths"][path]["post"]
        content = operation["requestBody"]["content"]["application/json"]
        body = schemas[content["schema"]["$ref"].rsplit("/", 1)[1]]
        for name, schema in body["properties"].items():
            for each in schema.get("anyOf", [schema]):
                for keyword, beside in CONSTRAINTS.items():
                    if keyword in each and abs(each[keyword]) < 2**40:
                        yield path, name, beside(each[keyword])


@pytest.mark.parametrize(("path", "name", "value"), list(outside_of_bounds()))
async def test_bounds_are_those_of_the_server(
    path: str, name: str, value: object
) -> None:
    """
    What the document forbids is refused, by the field's name.
    """
    body = {**BODIES[path], name: value}
    if name == "top_logprobs":
        body["logprobs"] = True
    async with client_of(FakeEngine()) as client:
        response = await client.post(path, json=body)
        answer = await response.json()

    assert response.status == 400, answer
    assert name in answer["error"]["message"]


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_strangers_see_nothing(path: str) -> None:
    """
    With keys, the description needs one like the API's.
    """
    served = {"Authorization": "Bearer k"}
    other = {"Authorization": "Bearer m"}
    keys = KeySet(
        {
            digest_of("k"): ApiKey(name="one", scopes=frozenset({Scope.SERVE})),
            digest_of("m"): ApiKey(name="two", scopes=frozenset({Scope.METRICS})),
        }
    )
    settings = ServerSettings(api_keys=KeyFile("keys", keys))

    async with client_of(FakeEngine(), settings) as client:
        statuses = [
            (await client.get(path, headers=each)).status
            for each in ({}, other, served)
        ]

    assert statuses == [401, 403, 200]


def test_document_tells_scopes() -> None:
    """
    Probes need no key, others need the scope of their path; an open server none.
    """
    guarded, opened = document(ServerSettings(api_key="k")), document()

    def scopes(made: Any, path: str) -> Any:
        operation, *others = made["paths"][path].values()
        assert all(each.get("security") == operation.get("security") for each in others)
        return operation.get("security")

    assert scopes(guarded, "/health") is None
    assert scopes(guarded, "/v1/models") == [{"bearer": ["serve"]}, {"key": ["serve"]}]
    assert scopes(guarded, "/own/page") == [
        {"bearer": ["metrics"]},
        {"key": ["metrics"]},
    ]
    assert "401" in guarded["paths"]["/v1/models"]["get"]["responses"]
    assert not [path for path in opened["paths"] if scopes(opened, path)]
    assert "401" not in opened["paths"]["/v1/models"]["get"]["responses"]


async def test_description_can_be_turned_off() -> None:
    """
    vLLM's option leaves both paths unserved.
    """
    settings = ServerSettings(disable_fastapi_docs=True)
    async with client_of(FakeEngine(), settings) as client:
        statuses = [
            (await client.get(path)).status for path in ("/openapi.json", "/docs")
        ]

    assert statuses == [404, 404]


async def test_page_needs_nothing_from_outside() -> None:
    """
    It has every path and message, and loads and runs nothing.
    """
    async with client_of(FakeEngine(), EVERYTHING) as client:
        made = await (await client.get("/openapi.json")).json()
        response = await client.get("/docs")
        page = await response.text()

    assert response.content_type == "text/html"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert not re.findall(r"<script|<link|<img|src=|url\(|@import", page)
    targets = set(re.findall(r'href="([^"]*)"', page))
    schemas = made["components"]["schemas"]
    assert targets <= {"openapi.json", *(f"#{name}" for name in schemas)}
    assert all(f"<code>{path}</code>" in page for path in made["paths"])
    assert all(f'id="{name}"' in page for name in schemas)


async def test_document_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Later requests get what the first one had made.
    """
    calls = []

    def count(app: Any) -> Any:
        calls.append(app)
        return openapi_document(app)

    monkeypatch.setattr(description, "openapi_document", count)
    async with client_of(FakeEngine()) as client:
        assert not calls
        bodies = [await (await client.get("/openapi.json")).read() for _ in range(2)]
        await client.get("/docs")

    assert len(calls) == 1
    assert bodies[0] == bodies[1]
