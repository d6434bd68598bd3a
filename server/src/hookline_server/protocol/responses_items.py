"""Items of `/v1/responses`, as clients send them and as the server stores them."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Name

KINDS = ("message", "function_call", "function_call_output", "reasoning")
"""Types of items in a conversation."""

REFERENCE = "item_reference"
"""Type of an item that refers to a stored one."""

ROLES = ("user", "assistant", "system", "developer")

PARTS = ("input_text", "output_text", "refusal", "reasoning_text", "summary_text")

_ID_BYTES = 16
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


class ItemPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A part of a message, a result or reasoning; only text is supported."""

    type: Annotated[Name, bounds(enum=PARTS)]
    text: str | None = None
    refusal: str | None = None


Parts = str | list[ItemPart]
ShownItem = dict[str, object]
"""An item as clients get it back."""


class InputItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of a conversation, with the fields of all supported types."""

    type: Annotated[Name, bounds(enum=(*KINDS, REFERENCE))] | None = None
    id: Name | None = None
    role: Annotated[Name, bounds(enum=ROLES)] | None = None
    content: Parts | None = None
    call_id: Name | None = None
    name: Name | None = None
    arguments: str | None = None
    output: Parts | None = None
    summary: list[ItemPart] | None = None

    @property
    def kind(self) -> str:
        """The type, which messages and references may leave out."""
        if self.type is not None:
            return self.type
        return "message" if self.role is not None else REFERENCE


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a response's input items."""

    object: Literal["list"] = "list"
    data: list[ShownItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


def new_id(kind: str) -> str:
    """Returns an id for an item of a type."""
    return f"{_ID_PREFIXES.get(kind, kind[:2])}_{secrets.token_hex(_ID_BYTES)}"


def shown_items(items: Sequence[InputItem]) -> list[ShownItem]:
    """Returns items in the form in which clients get them back, all with ids."""
    return [_shown(item) for item in items]


def _shown(item: InputItem) -> ShownItem:
    kind = item.kind
    shown = {**_fields(item), "type": kind, "id": item.id or new_id(kind)}
    if kind == "reasoning":
        return {"summary": [], **shown}
    if kind == "message":
        role = item.role or "user"
        shown["content"] = [_part(part, role) for part in _parts(item.content, role)]
    return {**shown, "status": "completed"}


def _fields(item: InputItem) -> dict[str, object]:
    fields = msgspec.structs.asdict(item)
    return {name: value for name, value in fields.items() if value is not None}


def _parts(content: Parts | None, role: str) -> list[ItemPart]:
    if isinstance(content, list):
        return content
    kind = "output_text" if role == "assistant" else "input_text"
    return [ItemPart(type=kind, text=content or "")]


def _part(part: ItemPart, role: str) -> dict[str, object]:
    shown: dict[str, object] = {"type": part.type}
    if part.type == "refusal":
        return {**shown, "refusal": part.refusal}
    shown["text"] = part.text
    if role == "assistant":
        shown |= {"annotations": [], "logprobs": []}
    return shown
