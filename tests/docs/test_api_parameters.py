"""docs/api_parameters.md has each parameter of each endpoint, and tests that exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_type_hints

import msgspec
import pytest
import yaml

from hookline_server.app import create_app
from hookline_server.openapi.document import described_routes
from hookline_server.protocol.generation import WHAT
from hookline_server.protocol.parameter_types import Never
from hookline_server.protocol.schema_notes import Refused
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine
from hookline_testing.table_walk import for_each_row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api_parameters.md").read_text("utf-8")
NAMED = yaml.safe_load(Path(__file__).with_name("api_parameters.yaml").read_text())
# Another endpoint needs a short name here, and rows on the page.
ENDPOINTS = {
    "/v1/completions": "completions",
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "count_tokens",
    "/v1/embeddings": "embeddings",
    "/pooling": "pooling",
    "/tokenize": "tokenize",
    "/detokenize": "detokenize",
    "/v1/load_lora_adapter": "load_adapter",
    "/v1/unload_lora_adapter": "unload_adapter",
}
DISPATCHED = {
    *("/invocations", "/v1/responses/input_tokens"),
    *("/load_lora_adapter", "/unload_lora_adapter"),
}
"""Paths whose bodies are those of other endpoints."""

_ROW = re.compile(
    r"\| (`\w+`(?:, `\w+`)*) \| ([\w, ]+) \| (\w+)[^|]* \| `(tests/[^`]+)::(\w+)` \|"
)


class Row(NamedTuple):
    """A parameter of an endpoint."""

    endpoint: str
    name: str
    what: str
    test: tuple[str, str]


def rows() -> Iterator[Row]:
    for match in _ROW.finditer(PAGE):
        for endpoint in match[2].split(", "):
            for name in match[1].split(", "):
                yield Row(endpoint, name.strip("`"), match[3], (match[4], match[5]))


ROWS = list(rows())


def kinds() -> dict[str, tuple[type, ...]]:
    """The messages of each endpoint with a body, by its name on the page."""
    settings = ServerSettings(enable_sleep_mode=True, enable_reset_prefix_cache=True)
    app = create_app(FakeEngine(), settings)
    return {
        ENDPOINTS.get(route.path, route.path): route.operation.bodies
        for route in described_routes(app)
        if route.operation.bodies and route.path not in DISPATCHED
    }


KINDS = kinds()


def fields(endpoint: str) -> set[str]:
    return {
        field.encode_name
        for kind in KINDS[endpoint]
        for field in msgspec.structs.fields(kind)
    }


def refused(endpoint: str) -> set[str]:
    """Fields whose types say that they are refused."""
    found = set()
    for kind in KINDS[endpoint]:
        hints = get_type_hints(kind, include_extras=True)
        never = {Refused, Never | None}
        found |= {name for name, hint in hints.items() if hint in never}
        found |= WHAT.keys() & hints.keys()
    return found


def test_every_line_of_the_tables_is_read() -> None:
    """
    A row that is written in another way would escape all checks.
    """
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]

    assert all(_ROW.fullmatch(line) for line in lines)
    pairs = [(row.endpoint, row.name) for row in ROWS]
    assert len(pairs) == len(set(pairs))
    assert {row.endpoint for row in ROWS} == set(KINDS)
    assert set(NAMED) <= set(KINDS)


@pytest.mark.parametrize("endpoint", KINDS)
def test_every_parameter_has_a_row(endpoint: str) -> None:
    """
    Fields of messages, and names of other descriptions.
    """
    listed = {row.name for row in ROWS if row.endpoint == endpoint}
    texts = NAMED.get(endpoint, {}).values()
    named = {name for text in texts for name in text.split()}

    assert fields(endpoint) - listed == set()
    assert named - listed == set()
    assert listed - fields(endpoint) - named == set()


@for_each_row("row", ROWS, ids=lambda row: f"{row.endpoint}-{row.name}")
def test_page_says_what_is_done(row: Row) -> None:
    """
    What no message has is ignored, and refused is what its type says so of.
    """
    expected = "honoured"
    if row.name not in fields(row.endpoint):
        expected = "ignored"
    elif row.name in refused(row.endpoint):
        expected = "refused"

    assert row.what == expected


@cache
def defined(path: str) -> set[str]:
    """Names of the functions in a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@for_each_row("path, name", sorted({row.test for row in ROWS}))
def test_named_test_exists(path: str, name: str) -> None:
    """
    A proof that the page names can be run.
    """
    assert name in defined(path)
