"""Bounds the number of values in a JSON body before any of them is decoded."""

from hookline.request_limits import JSON_CONTAINERS, JSON_STRINGS, JSON_VALUES

UNCHECKED_BYTES = 64 * 1024
"""Bodies up to this size cannot exceed the limits."""


def check_structure(body: bytes) -> None:
    """Counts strings, lists, objects and values; decodes and copies none of them.

    A decoder pays for each of them, not for their bytes: 8 MB of empty lists take it a
    hundred times as long as 8 MB of text. The counts are exact for valid JSON.

    Args:
        body: The body, valid or not.

    Raises:
        LimitError: There are too many.
    """
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    JSON_STRINGS.check(bare.count(b'"') // 2)
    outside = b"".join(bare.split(b'"')[::2])
    containers = outside.count(b"[") + outside.count(b"{")
    JSON_CONTAINERS.check(containers)
    JSON_VALUES.check(outside.count(b",") + containers + 1)
