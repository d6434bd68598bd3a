"""What the messages of an answer say: text, usage, the reason of its end.

It reads OpenAI's completions, chats, responses and embeddings, and Anthropic's
messages, and takes what it does not understand for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

T = TypeVar("T")

_EMPTY = frozenset({b"null", b'""', b"[]", b"{}", b""})
_NO_CONTENT = frozenset({"role", "finish_reason", "stop_reason", "stop_sequence"})
_NONE = msgspec.Raw(b"null")


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    """Usage by OpenAI's names, those of its responses, and Anthropic's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    text: msgspec.Raw = _NONE
    delta: msgspec.Raw = _NONE
    finish_reason: str | None = None


class _Message(msgspec.Struct):
    """What is within a response of OpenAI, or begins one of Anthropic."""

    usage: msgspec.Raw = _NONE
    status: str | None = None


class _Event(msgspec.Struct):
    """The fields of all kinds of answers and of their events."""

    type: str = ""
    choices: list[_Choice] = []
    usage: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE
    delta: msgspec.Raw = _NONE
    response: _Message | None = None
    message: _Message | None = None
    status: str | None = None
    stop_reason: str | None = None


class _StopDelta(msgspec.Struct):
    stop_reason: str | None = None


@dataclass(slots=True)
class Found:
    """What an answer has said so far.

    Attributes:
        prompt_tokens: Number of prompt tokens; None if it does not say.
        cached_tokens: Number of these that a cache had.
        output_tokens: Number of generated tokens; None if it does not say.
        finish_reason: Why it ended, as the server calls it; empty if it does not say.
        error: The error that it ends with; empty without.
        is_complete: Whether it has come to its end.
    """

    prompt_tokens: int | None = None
    cached_tokens: int = 0
    output_tokens: int | None = None
    finish_reason: str = ""
    error: str = ""
    is_complete: bool = False

    def read(self, message: bytes) -> bool:
        """Reads an event or a whole answer; returns whether it has generated content.

        What is no JSON object counts as content, since nobody knows better.
        """
        if message == b"[DONE]":
            self.is_complete = True
            return False
        try:
            event = _decode_event(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return True
        for part in (event, event.response, event.message):
            if part is not None and (usage := _as(part.usage, _Usage)) is not None:
                self._count(usage)
        if bytes(event.error) not in _EMPTY:
            self.error = "the upstream's stream had an error"
        self._end(event)
        if event.choices:
            return any(map(_has_content, event.choices))
        return event.type.endswith((".delta", "_block_delta"))

    def _count(self, usage: _Usage) -> None:
        details = usage.prompt_tokens_details or usage.input_tokens_details
        cached = None if details is None else details.cached_tokens
        if usage.prompt_tokens is not None:
            self.prompt_tokens = usage.prompt_tokens
            # Embeddings have no output.
            self.output_tokens = usage.completion_tokens or 0
        elif usage.input_tokens is not None:
            self.prompt_tokens = usage.input_tokens
            if usage.cache_read_input_tokens is not None:  # Anthropic's are apart
                cached = usage.cache_read_input_tokens
                self.prompt_tokens += cached + (usage.cache_creation_input_tokens or 0)
        if usage.output_tokens is not None:
            self.output_tokens = usage.output_tokens
        if cached is not None:
            self.cached_tokens = cached

    def _end(self, event: _Event) -> None:
        reasons = [each.finish_reason for each in event.choices if each.finish_reason]
        if reasons:
            self.finish_reason = reasons[-1]
        elif event.type == "message_delta":
            delta = _as(event.delta, _StopDelta)
            self.finish_reason = (delta and delta.stop_reason) or self.finish_reason
        elif event.response is not None and event.response.status is not None:
            self.finish_reason = event.response.status
        elif event.stop_reason or event.status:
            self.finish_reason = event.stop_reason or event.status or ""
        if self.finish_reason == "failed" and not self.error:
            self.error = "the upstream's response failed"
        is_last = event.type in {"message_stop", "response.completed"}
        if is_last or self.finish_reason in {"incomplete", "failed"}:
            self.is_complete = True


_decode_event = msgspec.json.Decoder(_Event).decode


def choices_with_content(message: bytes) -> Sequence[int]:
    """Returns the indices of the choices whose content an event has."""
    try:
        choices = _decode_event(message).choices
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return [each.index for each in choices if _has_content(each)]


def _as(raw: msgspec.Raw, kind: type[T]) -> T | None:
    if bytes(raw) in _EMPTY:
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _has_content(choice: _Choice) -> bool:
    if bytes(choice.text) not in _EMPTY:
        return True
    fields = _as(choice.delta, dict[str, msgspec.Raw]) or {}
    return any(
        bytes(value) not in _EMPTY
        for name, value in fields.items()
        if name not in _NO_CONTENT
    )
