"""A chat message, as sent by clients and as passed to the chat template."""

from collections.abc import Sequence

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES
from hookline_server.protocol.wire import Name

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
"""Role in the API → role in chat templates."""


class ContentPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A content part; only text parts are supported."""

    type: Name
    text: str | None = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Name
    content: str | list[ContentPart] | None = None
    name: Name | None = None
    tool_call_id: Name | None = None
    tool_calls: object = None
    function_call: object = None
    audio: object = None


def template_messages(messages: Sequence[ChatMessage]) -> list[dict[str, object]]:
    """Returns the message for the chat template; may raise `RequestError`."""
    MESSAGES.check(len(messages))
    contents = (message.content for message in messages)
    CONTENT_PARTS.check(sum(len(each) for each in contents if isinstance(each, list)))
    return [
        _template_message(message, f"messages[{position}]")
        for position, message in enumerate(messages)
    ]


def _template_message(message: ChatMessage, place: str) -> dict[str, object]:
    if message.role not in ROLES:
        raise RequestError(
            f"{place}.role must be one of {', '.join(ROLES)}, not {message.role!r}",
            param=f"{place}.role",
        )
    for name in ("tool_calls", "function_call", "audio"):
        if getattr(message, name):
            raise RequestError(
                f"{place}.{name} is not supported", param=f"{place}.{name}"
            )
    rendered: dict[str, object] = {
        "role": ROLES[message.role],
        "content": _text(message, f"{place}.content"),
    }
    if message.name is not None:
        rendered["name"] = message.name
    if message.tool_call_id is not None:
        rendered["tool_call_id"] = message.tool_call_id
    return rendered


def _text(message: ChatMessage, place: str) -> str:
    content = message.content
    if content is None:
        if message.role == "assistant":
            return ""
        raise RequestError(f"{place} is missing", param=place)
    if isinstance(content, str):
        return content
    return "\n".join(
        _part_text(part, f"{place}[{number}]") for number, part in enumerate(content)
    )


def _part_text(part: ContentPart, place: str) -> str:
    if part.type != "text":
        raise RequestError(
            f"{place}: content of type {part.type!r} is not supported, only text is",
            param=place,
        )
    if part.text is None:
        raise RequestError(f"{place}.text is missing", param=f"{place}.text")
    return part.text
