"""A chat message, as sent by clients and as passed to the chat template."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.past_calls import PastCall, PastCalls, PastFunction
from hookline_server.protocol.schema_notes import Refused, bounds, held
from hookline_server.protocol.wire import Name

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Role in the API → role in chat templates."""


class ContentPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A content part; only text and refusals are supported."""

    type: Annotated[Name, bounds(enum=("text", "refusal"))]
    text: str | None = None
    refusal: str | None = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Annotated[Name, bounds(enum=tuple(ROLES))]
    content: str | list[ContentPart] | None = None
    name: Name | None = None
    tool_call_id: Name | None = None
    tool_calls: list[Annotated[object, held(PastCall)]] | None = None
    function_call: Annotated[object, held(PastFunction, nullable=True)] = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    audio: Refused = None


def template_messages(messages: Sequence[ChatMessage]) -> list[dict[str, object]]:
    """Returns the messages for the chat template; may raise `RequestError`."""
    MESSAGES.check(len(messages))
    contents = (message.content for message in messages)
    CONTENT_PARTS.check(sum(len(each) for each in contents if isinstance(each, list)))
    TOOL_CALLS.check(sum(len(message.tool_calls or ()) for message in messages))
    past_calls = PastCalls()
    return [
        _template_message(message, f"messages[{position}]", past_calls)
        for position, message in enumerate(messages)
    ]


def assistant_text(message: ChatMessage) -> str:
    """Returns the text of a message of the assistant, and nothing for others."""
    return _text(message, "messages") if message.role == "assistant" else ""


def reasoning_names(reasoning: str | None, content: object) -> dict[str, object]:
    """Returns an assistant's reasoning under the names that templates use.

    Args:
        reasoning: The reasoning; None or empty if there is none.
        content: The content beside it.
    """
    if not reasoning:
        return {}
    names: dict[str, object] = {"reasoning_content": reasoning, "reasoning": reasoning}
    # The template of gpt-oss refuses a message with both.
    return names if content else {**names, "thinking": reasoning}


def _template_message(
    message: ChatMessage, place: str, past_calls: PastCalls
) -> dict[str, object]:
    if message.role not in ROLES:
        raise RequestError(
            f"{place}.role must be one of {', '.join(ROLES)}, not {message.role!r}",
            param=f"{place}.role",
        )
    if message.audio:
        raise RequestError(f"{place}.audio is not supported", param=f"{place}.audio")
    rendered: dict[str, object] = {
        "role": ROLES[message.role],
        "content": _text(message, f"{place}.content"),
    }
    if message.name is not None:
        rendered["name"] = message.name
    if message.tool_call_id is not None:
        rendered["tool_call_id"] = message.tool_call_id
    if calls := _calls(message, place, past_calls):
        rendered["tool_calls"] = calls
    if message.role != "assistant":
        return rendered
    reasoning = message.reasoning_content or message.reasoning
    return rendered | reasoning_names(reasoning, message.content)


def _calls(
    message: ChatMessage, place: str, past_calls: PastCalls
) -> list[dict[str, object]]:
    for name in ("tool_calls", "function_call"):
        if getattr(message, name) and message.role != "assistant":
            raise RequestError(
                f"{place}.{name}: only messages of the assistant have calls",
                param=f"{place}.{name}",
            )
    if message.tool_calls:
        return past_calls.calls(message.tool_calls, f"{place}.tool_calls")
    if message.function_call:
        return past_calls.legacy_call(message.function_call, f"{place}.function_call")
    return []


def _text(message: ChatMessage, place: str) -> str:
    content = message.content
    if content is None:
        if message.role == "assistant":
            return message.refusal or ""
        if message.role in ("function", "tool"):  # it has returned nothing
            return ""
        raise RequestError(f"{place} is missing", param=place)
    if isinstance(content, str):
        return content
    return "\n".join(
        _part_text(part, f"{place}[{number}]") for number, part in enumerate(content)
    )


def _part_text(part: ContentPart, place: str) -> str:
    if part.type not in ("text", "refusal"):
        raise RequestError(
            f"{place}: content of type {part.type!r} is not supported, only text is",
            param=place,
        )
    text = part.text if part.type == "text" else part.refusal
    if text is None:
        field = f"{place}.{part.type}"
        raise RequestError(f"{field} is missing", param=field)
    return text
