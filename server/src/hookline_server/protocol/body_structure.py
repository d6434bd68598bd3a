"""Bounds the number of values in a JSON body, and their depth."""

from typing import NamedTuple

from hookline.request_limits import JSON_CONTAINERS, JSON_STRINGS, JSON_VALUES

UNCHECKED_BYTES = 64 * 1024
"""Bodies up to this size cannot exceed the limits."""


_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")


class Counts(NamedTuple):
    """The numbers of values in a body.

    Attributes:
        strings: Strings, keys included.
        containers: Lists and objects.
        values: Values, counting each list or object that is empty twice.
    """

    strings: int
    containers: int
    values: int


def count(body: bytes) -> Counts:
    """Counts a body's values without decoding them; exact for valid JSON."""
    bare = _without_escapes(body)
    strings = bare.count(b'"') // 2
    JSON_STRINGS.check(strings)  # each becomes an object below
    outside = _outside_strings(bare)
    containers = outside.count(b"[") + outside.count(b"{")
    return Counts(strings, containers, outside.count(b",") + containers + 1)


def check_structure(body: bytes) -> None:
    """Checks how many values a body has.

    Decoding costs time per value rather than per byte: 8 MB of empty lists take a
    hundred times as long as 8 MB of text.

    Args:
        body: The body, valid JSON or not.

    Raises:
        LimitError: There are too many.
    """
    counts = count(body)
    JSON_CONTAINERS.check(counts.containers)
    JSON_VALUES.check(counts.values)


def depth(json: bytes, most: int) -> int:
    """Returns the levels of lists and objects in valid JSON, counted up to `most`.

    It scans the text, because there may be a thousand times as many values as lists.
    """
    brackets = _outside_strings(_without_escapes(json)).translate(None, _NO_BRACKETS)
    level = deepest = 0
    for bracket in brackets:
        if bracket in b"[{":
            level += 1
            deepest = max(deepest, level)
            if deepest == most:
                break
        else:
            level -= 1
    return deepest


def _without_escapes(json: bytes) -> bytes:
    return json.replace(b"\\\\", b"").replace(b'\\"', b"")


def _outside_strings(json: bytes) -> bytes:
    return b"".join(json.split(b'"')[::2])
