"""Schemas by category, for schema_coverage.py: read from a folder, or generated."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A schema, with values that are known to be valid or invalid."""

    schema: Schema
    values: tuple[object, ...] = ()


def read(folder: Path, most: int) -> Mapping[str, list[Case]]:
    """Reads up to `most` schemas of each category, spread over its files.

    A file is a schema, or an object with `schema` and `tests`, as JSONSchemaBench has
    them. Its category is its name as far as "---", or the folder that it is in, or
    its name as far as "_" if it is not in a folder of its own.
    """
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.rglob("*.json")):
        found[_category(path, folder)].append(path)
    return {
        name: [_case(path) for path in paths[:: -(-len(paths) // most)]]
        for name, paths in found.items()
    }


def _category(path: Path, folder: Path) -> str:
    name, dashes, _ = path.name.partition("---")
    if dashes:
        return name
    return path.stem.partition("_")[0] if path.parent == folder else path.parent.name


def _case(path: Path) -> Case:
    given = json.loads(path.read_text("utf-8"))
    if not isinstance(given, dict) or not isinstance(given.get("tests"), list):
        return Case(given)
    return Case(given["schema"], tuple(each["data"] for each in given["tests"]))


def made(most: int) -> Mapping[str, list[Case]]:
    """Generates this many schemas of each of several kinds, the same each time."""
    return {
        name: [
            Case(make(random.Random(seed)))  # noqa: S311 - the same each time
            for seed in range(most)
        ]
        for name, make in MAKERS.items()
    }


def _scalar(source: random.Random) -> Schema:
    return source.choice(
        [
            {"type": "string"},
            {"type": "string", "description": "Some text."},
            {"type": "integer"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "string", "enum": ["a", "b", "c"]},
        ]
    )


def _limited(source: random.Random) -> Schema:
    return source.choice(
        [
            {"type": "string", "maxLength": source.randint(1, 255)},
            {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            {"type": "string", "pattern": r"^\d+(\.\d+)*$"},
            {"type": "string", "format": source.choice(["date-time", "uri", "email"])},
            {"type": "integer", "minimum": 0, "maximum": source.randint(1, 65535)},
            {"type": "number", "minimum": 0},
            {"type": ["string", "null"]},
        ]
    )


def _object(source: random.Random, of: Callable[[random.Random], Schema]) -> Schema:
    names = [f"field_{number}" for number in range(source.randint(1, 6))]
    return {
        "type": "object",
        "properties": {name: of(source) for name in names},
        "required": [name for name in names if source.random() < 0.5],
    }


def _function(source: random.Random) -> Schema:
    return {"$schema": "http://json-schema.org/draft-07/schema#"} | _object(
        source, _scalar
    )


def _trivial(source: random.Random) -> Schema:
    return _object(source, _scalar)


def _easy(source: random.Random) -> Schema:
    return _object(source, lambda inner: _object(inner, _scalar))


def _medium(source: random.Random) -> Schema:
    def value(inner: random.Random) -> Schema:
        return inner.choice([_limited(inner), _list(inner), _object(inner, _limited)])

    return _object(source, value)


def _list(source: random.Random) -> Schema:
    schema: Schema = {"type": "array", "items": _object(source, _limited)}
    if source.random() < 0.3:
        schema["minItems"] = 1
    if source.random() < 0.3:
        schema["uniqueItems"] = True
    return schema


def _hard(source: random.Random) -> Schema:
    defined = {f"part_{number}": _medium(source) for number in range(4)}
    refs = [{"$ref": f"#/definitions/{name}"} for name in defined]

    def value(inner: random.Random) -> Schema:
        branches = inner.sample(refs, 2)
        return inner.choice(
            [
                inner.choice(refs),
                {"oneOf": branches},
                {"anyOf": branches},
                {"allOf": branches},
                {"type": "array", "items": inner.choice(refs)},
            ]
        )

    return _object(source, value) | {"definitions": defined}


def _resource(source: random.Random) -> Schema:
    """A resource of a cluster: many optional properties, nested, and free maps."""
    spec = _object(source, lambda inner: _object(inner, _limited))
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": ["string", "null"], "enum": ["v1"]},
            "kind": {"const": "Thing"},
            "metadata": {"type": "object", "properties": {"labels": labels}},
            "spec": spec,
            "port": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["apiVersion", "kind"],
    }


def _event(source: random.Random) -> Schema:
    return {
        "self": {"vendor": "org.example", "name": "event", "version": "1-0-0"},
        **_object(source, _limited),
        "additionalProperties": False,
    }


def _document(source: random.Random) -> Schema:
    """A document whose parts each name their kind in a constant `type`."""
    parts = [
        {
            "type": "object",
            "properties": {"type": {"const": kind}, "value": _limited(source)},
            "required": ["type", "value"],
            "additionalProperties": False,
        }
        for kind in ("text", "image", "video", "quote")
    ]
    return {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "parts": {"type": "array", "items": {"oneOf": parts}},
        },
        "required": ["title", "parts"],
    }


def _configuration(source: random.Random) -> Schema:
    """A tool's configuration file: all kinds of keywords, seldom used together."""
    schema = _hard(source)
    properties = schema["properties"]
    properties["rules"] = {
        "type": "object",
        "patternProperties": {"^[a-z]+$": {"enum": ["off", "warn", "error", 0, 1, 2]}},
    }
    properties["more"] = source.choice(
        [
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": _scalar(source),
            },
            {"if": {"type": "string"}, "then": {"minLength": 1}},
            {"not": {"type": "null"}},
            {"type": "array", "contains": {"type": "string"}},
        ]
    )
    return schema


def _tree(source: random.Random) -> Schema:
    node = _object(source, _limited)
    node["properties"]["children"] = {
        "type": "array",
        "items": {"$ref": "#/$defs/node"},
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


MAKERS: Mapping[str, Callable[[random.Random], Schema]] = {
    "functions": _function,
    "trivial": _trivial,
    "easy": _easy,
    "medium": _medium,
    "hard": _hard,
    "resources": _resource,
    "events": _event,
    "documents": _document,
    "configurations": _configuration,
    "trees": _tree,
}


def every(cases: Mapping[str, list[Case]]) -> Iterator[tuple[str, Case]]:
    for name, listed in cases.items():
        for case in listed:
            yield name, case
