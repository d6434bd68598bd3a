"""A hundred everyday JSON schemas, made from a seed: records, lists, choices."""

import random
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

NOUNS = (
    *("id", "name", "title", "status", "count", "price", "tags", "owner", "address"),
    *("created", "email", "active", "score", "items", "note", "kind", "size", "city"),
)
STATES = ("open", "closed", "new", "in progress", "done", "failed", "unknown")


def text(source: random.Random) -> Schema:
    return {"type": "string", "maxLength": source.randint(3, 12)}


def word(source: random.Random) -> Schema:
    return {"type": "string", "pattern": f"^[a-z]{{1,{source.randint(2, 9)}}}$"}


def code(source: random.Random) -> Schema:
    return {
        "type": "string",
        "pattern": f"^[A-Z]{{2}}-[0-9]{{{source.randint(2, 5)}}}$",
    }


def moment(source: random.Random) -> Schema:
    return {"type": "string", "format": source.choice(["date", "time", "date-time"])}


def choice(source: random.Random) -> Schema:
    return {"enum": source.sample(STATES, source.randint(1, len(STATES)))}


def integer(source: random.Random) -> Schema:
    least = source.randint(-50, 50)
    return {
        "type": "integer",
        "minimum": least,
        "maximum": least + source.randint(0, 900),
    }


def number(source: random.Random) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": source.choice([1, 10.5, 250])}


def flag(_: random.Random) -> Schema:
    return {"type": "boolean"}


def nullable(source: random.Random) -> Schema:
    return {"anyOf": [source.choice(SCALARS)(source), {"type": "null"}]}


SCALARS: tuple[Callable[[random.Random], Schema], ...] = (
    *(text, word, code, moment, choice, integer, number, flag),
)


def listed(source: random.Random, depth: int) -> Schema:
    least = source.randint(0, 2)
    return {
        "type": "array",
        "items": value(source, depth - 1),
        "minItems": least,
        "maxItems": least + source.randint(0, 2),
    }


def record(source: random.Random, depth: int) -> Schema:
    names = source.sample(NOUNS, source.randint(1, 5))
    needed = [name for name in names if source.random() < 0.7]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: value(source, depth - 1) for name in names},
        "required": needed,
    }
    if source.random() < 0.7:
        schema["additionalProperties"] = False
    if source.random() < 0.3:
        schema["description"] = "A record."
    return schema


def value(source: random.Random, depth: int) -> Schema:
    if depth > 0 and source.random() < 0.25:
        return source.choice([listed, record])(source, depth)
    return source.choice([*SCALARS, nullable])(source)


MADE: dict[str, Schema] = {
    f"made {seed}": record(random.Random(seed), 3)  # noqa: S311 - the same each time
    for seed in range(100)
}
