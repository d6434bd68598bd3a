"""Notes for the schemas of messages: bounds, and the contents of undecoded JSON.

Decoders ignore these notes; the code that reads a field checks it.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

REFERENCE = "#/components/schemas/{name}"
"""Location of a message's schema in the API's document."""

BOUNDS = "x-bounds"
"""Keyword that holds bounds until they replace those of the type."""

HELD: dict[str, type] = {}
"""Messages that others contain as undecoded JSON, by name."""


def bounds(**keywords: object) -> msgspec.Meta:
    """Returns a note with keywords of JSON Schema, such as `minimum`."""
    return msgspec.Meta(extra_json_schema={BOUNDS: keywords})


def held(
    *kinds: type[msgspec.Struct], words: Sequence[str] = (), nullable: bool = False
) -> msgspec.Meta:
    """Returns the note that undecoded JSON is one of these messages or words."""
    HELD.update({kind.__name__: kind for kind in kinds})
    options: list[object] = [
        {"$ref": REFERENCE.format(name=kind.__name__)} for kind in kinds
    ]
    if words:
        options.append({"enum": [*words]})
    if words or nullable:
        options.append({"type": "null"})
    return msgspec.Meta(extra_json_schema={"anyOf": options})


Refused = Annotated[
    object,
    msgspec.Meta(extra_json_schema={"description": "Not supported: refused if set."}),
]
"""A field for a feature that is not supported."""

TokenIdsJson = Annotated[
    msgspec.Raw,
    msgspec.Meta(extra_json_schema={"type": "array", "items": {"type": "integer"}}),
]
"""Token ids that are already JSON."""
