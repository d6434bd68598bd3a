"""Items of `/v1/responses`, as clients send them and as the server stores them."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from hookline_server.protocol.content_parts import ContentPart
from hookline_server.protocol.schema_notes import bounds
from hookline_server.protocol.wire import Name

CALLS = (
    "function_call",
    "custom_tool_call",
    "tool_search_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
"""Types of calls that clients run themselves."""

RESULTS = (
    "function_call_output",
    "custom_tool_call_output",
    "tool_search_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
)
"""Types of these calls' results."""

REFERENCE = "item_reference"
"""Type of an item that refers to a stored one."""

MORE_TOOLS = "additional_tools"
"""Type of an item that only adds tools."""

KINDS = ("message", "agent_message", "reasoning", *CALLS, *RESULTS, MORE_TOOLS)
"""Types of items that the server reads; others are left out."""

ROLES = ("user", "assistant", "system", "developer")

_SHOWN = ("type", "text", "refusal")
"""Fields of parts that clients get back."""

_ID_BYTES = 16
_ID_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "tool_search_call": "tsc",
    "reasoning": "rs",
}


Parts = str | list[ContentPart]
ShownItem = dict[str, object]
"""An item as clients get it back."""


class InputItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of a conversation, with the fields of all types that are read."""

    type: Annotated[Name, bounds(enum=(*KINDS, REFERENCE))] | None = None
    id: str | None = None
    role: Annotated[Name, bounds(enum=ROLES)] | None = None
    content: Parts | None = None
    call_id: str | None = None
    name: Name | None = None
    namespace: Name | None = None
    arguments: object = None
    input: str | None = None
    output: object = None
    summary: object = None
    encrypted_content: str | None = None
    action: object = None
    operation: object = None
    tools: list[object] | None = None
    status: Name | None = None
    author: Name | None = None

    @property
    def kind(self) -> str:
        """The type, which messages and references may leave out."""
        return kind_of(self.type, self.role)


Placed = tuple[str, InputItem]
"""An item and where it stands in the request."""


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a response's input items."""

    object: Literal["list"] = "list"
    data: list[ShownItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


def kind_of(given: object, role: object) -> str:
    """Returns the type of an item, which messages and references may leave out."""
    if isinstance(given, str):
        return given
    return "message" if role is not None else REFERENCE


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
    return shown if kind == MORE_TOOLS else {"status": "completed", **shown}


def _fields(item: InputItem) -> dict[str, object]:
    fields = msgspec.structs.asdict(item)
    return {name: value for name, value in fields.items() if value is not None}


def _parts(content: Parts | None, role: str) -> list[ContentPart]:
    if isinstance(content, list):
        return content
    kind = "output_text" if role == "assistant" else "input_text"
    return [{"type": kind, "text": content or ""}]


def _part(part: ContentPart, role: str) -> dict[str, object]:
    """Returns a part without what nobody reads, such as the bytes of an image."""
    kept = {name: part[name] for name in _SHOWN if part.get(name) is not None}
    if role == "assistant" and "text" in kept:
        kept |= {"annotations": [], "logprobs": []}
    return kept
