"""Writes JSON and what only resembles it: double keys, NaN, halves of surrogates."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is written as it is, such as `NaN` or a number of a million digits."""

    text: str


@dataclass(slots=True)
class Members:
    """An object's members in order; keys may occur several times."""

    pairs: list[tuple[str, "Json"]]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list of the same item many times, without the list."""

    item: "Json"
    count: int


@dataclass(frozen=True, slots=True)
class Nested:
    """Lists or objects in one another."""

    depth: int
    is_object: bool


Json = (
    None
    | bool
    | int
    | float
    | str
    | list["Json"]
    | Members
    | Literal
    | Repeated
    | Nested
)


def json_bytes(value: Json) -> bytes:
    """Returns a value's text in UTF-8; halves of surrogates are escaped."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Json) -> str:
    match value:
        case Literal(text):
            return text
        case Members(pairs):
            inner = (f"{json.dumps(key)}:{_text(each)}" for key, each in pairs)
            return "{" + ",".join(inner) + "}"
        case Repeated(item, count):
            return "[" + ",".join([_text(item)] * count) + "]"
        case Nested(depth, is_object):
            left, right = ('{"a":', "}") if is_object else ("[", "]")
            return left * depth + "1" + right * depth
        case list():
            return "[" + ",".join(_text(each) for each in value) + "]"
        case _:
            return json.dumps(value)
