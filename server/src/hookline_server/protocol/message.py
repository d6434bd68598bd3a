"""A chat message, as sent by clients and as passed to the chat template."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline.request_limits import CONTENT_PARTS, MESSAGES, TOOL_CALLS
from hookline_server.protocol.content_parts import (
    Content,
    ContentPart,
    read_parts,
    reasoning_text,
)
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.past_calls import PastCall, PastCalls, PastFunction
from hookline_server.protocol.schema_notes import Refused, bounds, held
from hookline_server.protocol.system_text import without_billing
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

_ASKING = ("system", "developer", "user")
"""Roles of those who ask; after the messages of others, theirs are answered."""

_REASONING = msgspec.Meta(extra_json_schema={"type": ["string", "null"]})
_DETAILS = msgspec.Meta(extra_json_schema={"type": ["array", "null"]})


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Annotated[Name, bounds(enum=tuple(ROLES))]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[Annotated[object, held(PastCall)]] | None = None
    function_call: Annotated[object, held(PastFunction, nullable=True)] = None
    refusal: str | None = None
    reasoning_content: Annotated[object, _REASONING] = None
    reasoning: Annotated[object, _REASONING] = None
    reasoning_details: Annotated[object, _DETAILS] = None
    audio: Refused = None


def template_messages(
    messages: Sequence[ChatMessage], ignored: Ignored
) -> list[dict[str, object]]:
    """Returns the messages for the chat template.

    Args:
        messages: The messages.
        ignored: Notes what is left out.

    Raises:
        LimitError: They are too many, or calls are nested too deeply.
        RequestError: One is wrong, or cannot be left out.
    """
    MESSAGES.check(len(messages))
    contents = (message.content for message in messages)
    CONTENT_PARTS.check(sum(len(each) for each in contents if isinstance(each, list)))
    TOOL_CALLS.check(sum(len(message.tool_calls or ()) for message in messages))
    reader = _Reader(ignored)
    answers = [n for n, each in enumerate(messages) if each.role not in _ASKING]
    question = answers[-1] + 1 if answers else 0
    rendered = []
    for position, message in enumerate(messages):
        is_past = position < question
        each = reader.message(message, f"messages[{position}]", is_past=is_past)
        if each is not None:
            rendered.append(each)
    return rendered


def assistant_text(message: ChatMessage) -> str:
    """Returns the text of a message of the assistant, and nothing for others."""
    if message.role != "assistant":
        return ""
    return _Reader(Ignored()).content(message, "messages", is_past=True).text


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


class _Reader:
    """Reads the messages of one conversation."""

    def __init__(self, ignored: Ignored) -> None:
        self._ignored = ignored
        self._past_calls = PastCalls(ignored)

    def message(
        self, message: ChatMessage, place: str, *, is_past: bool
    ) -> dict[str, object] | None:
        """Returns a message for the template; None if all of it is left out."""
        if message.role not in ROLES:
            raise RequestError(
                f"{place}.role must be one of {', '.join(ROLES)}, not {message.role!r}",
                param=f"{place}.role",
            )
        if message.audio:
            field = f"{place}.audio"
            raise RequestError(f"{field} is not supported", param=field)
        role = ROLES[message.role]
        content = self.content(message, f"{place}.content", is_past=is_past)
        text = content.text
        if role == "system" and text:
            text = without_billing(text, self._ignored)
            if not text:
                return None
        rendered: dict[str, object] = {"role": role, "content": text}
        if message.name is not None:
            rendered["name"] = message.name
        if message.tool_call_id is not None:
            rendered["tool_call_id"] = message.tool_call_id
        if calls := self._calls(message, place):
            rendered["tool_calls"] = calls
        if role != "assistant":
            return rendered
        given = message.reasoning_content or message.reasoning
        reasoning = reasoning_text(given or message.reasoning_details)
        return rendered | reasoning_names(reasoning or content.reasoning, text)

    def content(self, message: ChatMessage, place: str, *, is_past: bool) -> Content:
        """Returns what a message says; may raise `RequestError`."""
        content = message.content
        if isinstance(content, str):
            return Content(content)
        role = ROLES[message.role]
        if content is not None:
            return read_parts(content, place, role, self._ignored, is_past=is_past)
        if role == "assistant":
            return Content(message.refusal or "")
        if role == "tool":  # as of a tool that returns nothing
            return Content()
        raise RequestError(f"{place} is missing", param=place)

    def _calls(self, message: ChatMessage, place: str) -> list[dict[str, object]]:
        for name in ("tool_calls", "function_call"):
            if getattr(message, name) and message.role != "assistant":
                raise RequestError(
                    f"{place}.{name}: only messages of the assistant have calls",
                    param=f"{place}.{name}",
                )
        if message.tool_calls:
            return self._past_calls.calls(message.tool_calls, f"{place}.tool_calls")
        if message.function_call:
            here = f"{place}.function_call"
            return self._past_calls.legacy_call(message.function_call, here)
        return []
