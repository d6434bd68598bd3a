"""Bounds the number of values in a JSON body, and their depth."""

from typing import NamedTuple

from hookline.request_limits import JSON_CONTAINERS, JSON_STRINGS, JSON_VALUES

UNCHECKED_BYTES = 64 * 1024
"""Bodies up to this size cannot exceed the limits."""


class Counts(NamedTuple):
    """What a body consists of.

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
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = bare.count(b'"') // 2
    JSON_STRINGS.check(strings)  # each becomes an object below
    outside = b"".join(bare.split(b'"')[::2])
    containers = outside.count(b"[") + outside.count(b"{")
    return Counts(strings, containers, outside.count(b",") + containers + 1)


def check_structure(body: bytes) -> None:
    """Checks how many values a body has.

    A decoder pays for each of them, not for their bytes: 8 MB of empty lists take it a
    hundred times as long as 8 MB of text.

    Args:
        body: The body, valid JSON or not.

    Raises:
        LimitError: There are too many.
    """
    counts = count(body)
    JSON_CONTAINERS.check(counts.containers)
    JSON_VALUES.check(counts.values)


def depth(value: object, most: int) -> int:
    """Returns the levels of lists and objects, counted up to `most`."""
    if isinstance(value, dict):
        value = list(value.values())
    if most == 0 or not isinstance(value, list):
        return 0
    inner = [each for each in value if isinstance(each, (dict, list))]
    return 1 + max((depth(each, most - 1) for each in inner), default=0)
