"""Responses of Anthropic's API: messages, the events of streams, errors.

The type of each struct, its tag, is also the name of the event.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Raw

EMPTY_INPUT = Raw(b"{}")


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts; the prompt's are the sum of all fields but the output's."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int = 0


class AnswerText(msgspec.Struct, frozen=True, tag="text"):
    """Text of a message."""

    text: str


class AnswerThinking(msgspec.Struct, frozen=True, tag="thinking"):
    """Reasoning; it is not signed."""

    thinking: str
    signature: str = ""


class AnswerToolUse(msgspec.Struct, frozen=True, tag="tool_use"):
    """A call of a tool."""

    id: str
    name: str
    input: Annotated[Raw, msgspec.Meta(extra_json_schema={"type": "object"})]


AnswerBlock = AnswerText | AnswerThinking | AnswerToolUse


class AnthropicMessage(msgspec.Struct, frozen=True, kw_only=True, tag="message"):
    """The generated message; in a stream first without content and end."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: MessageUsage


class MessageStart(msgspec.Struct, frozen=True, tag="message_start"):
    """The first event."""

    message: AnthropicMessage


class ContentBlockStart(msgspec.Struct, frozen=True, tag="content_block_start"):
    """A block begins, still empty."""

    index: int
    content_block: AnswerBlock


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    """More reasoning."""

    thinking: str


class InputJsonDelta(msgspec.Struct, frozen=True, tag="input_json_delta"):
    """More of a call's arguments."""

    partial_json: str


class ContentBlockDelta(msgspec.Struct, frozen=True, tag="content_block_delta"):
    """More of the block that is open."""

    index: int
    delta: TextDelta | ThinkingDelta | InputJsonDelta


class ContentBlockStop(msgspec.Struct, frozen=True, tag="content_block_stop"):
    """A block ends."""

    index: int


class MessageEnd(msgspec.Struct, frozen=True):
    """Why the message ended."""

    stop_reason: str
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag="message_delta"):
    """The end of the message, with its usage."""

    delta: MessageEnd
    usage: MessageUsage


class MessageStop(msgspec.Struct, frozen=True, tag="message_stop"):
    """The last event."""


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """An event that clients ignore."""


class TokenCount(msgspec.Struct, frozen=True):
    """The response of `/v1/messages/count_tokens`."""

    input_tokens: int


class AnthropicErrorDetail(msgspec.Struct, frozen=True):
    """Type and message of an error."""

    type: str
    message: str


class AnthropicError(msgspec.Struct, frozen=True, tag="error"):
    """The body of every error response, and the event of an error in a stream."""

    error: AnthropicErrorDetail
    request_id: str


MESSAGE_EVENTS = (
    MessageStart,
    Ping,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    AnthropicError,
)
"""All events that a stream can have."""
