"""Schemas of messages, generated from their types."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc

import msgspec

from hookline_server.protocol.schema_notes import BOUNDS, HELD, REFERENCE

Schema = dict[str, object]

_PREFIX = REFERENCE.format(name="")
_ANYTHING: Schema = {"description": "Any JSON value."}


class Schemas:
    """The schemas of a document's messages.

    Attributes:
        components: Schemas by name.
    """

    def __init__(self, requests: Iterable[type], answers: Iterable[object]) -> None:
        """Makes the schemas.

        Args:
            requests: What clients send.
            answers: What the server sends.
        """
        asked, answered = [*requests], [*answers]
        kinds: list[object] = [*asked, *answered]
        while True:
            schemas, self.components = msgspec.json.schema_components(
                kinds, schema_hook=lambda _: {**_ANYTHING}, ref_template=REFERENCE
            )
            missing = set(_references(self.components)) - self.components.keys()
            if not missing:
                break
            kinds += [HELD[name] for name in sorted(missing)]
        for each in (*schemas, *self.components.values()):
            _apply_notes(each)
        self._schemas = dict(zip(kinds, schemas, strict=True))
        sent = self._reachable(answered) - self._reachable(asked)
        for name in sent:
            _require_all_that_is_sent(self.components[name])

    def of(self, kind: object) -> Schema:
        """Returns the schema of a message, usually a reference."""
        return self._schemas[kind]

    def _reachable(self, kinds: Iterable[object]) -> set[str]:
        """Returns the names of the schemas that messages consist of."""
        found: set[str] = set()
        new = {name for kind in kinds for name in _references(self.of(kind))}
        while new:
            found |= new
            new = {
                name for each in new for name in _references(self.components[each])
            } - found
        return found


def _require_all_that_is_sent(schema: Schema) -> None:
    """Adds fields with defaults to those that are required.

    Servers always send them; fields that may be missing default to `UNSET`.
    """
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        for name, each in properties.items():
            if "default" in each:
                del each["default"]
                required.append(name)


def _apply_notes(value: object) -> None:
    """Replaces the bounds of types by those of the notes, and drops null defaults."""
    if isinstance(value, dict):
        value.update(value.pop(BOUNDS, {}))
        if isinstance(text := value.get("description"), str):
            value["description"] = cleandoc(text)
        if value.get("default", ...) is None and "anyOf" in value:
            del value["default"]
    inner = value.values() if isinstance(value, dict) else value
    if isinstance(inner, Iterable) and not isinstance(inner, str):
        for each in inner:
            _apply_notes(each)


def _references(value: object) -> Iterator[str]:
    """Yields the names of all schemas that a value refers to."""
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_PREFIX)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
