"""The content of chat messages: a text, or parts, which are read one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.ignored import UNSEEN, Ignored
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.wire import Name, convert

_TEXTS = ("text", "input_text", "output_text")
_MEDIA = frozenset(
    {
        *("audio", "audio_url", "document", "file", "image", "image_url"),
        *("input_audio", "input_file", "input_image", "video", "video_url"),
    }
)
"""Types of parts that a model which reads text cannot use."""


class TextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message's text."""

    type: Annotated[Name, bounds(enum=_TEXTS)]
    text: str


class RefusalPart(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal of the assistant, which is text, too."""

    type: Annotated[Name, bounds(const="refusal")]
    refusal: str


class ThinkingPart(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning of the assistant, a text or parts; that of others is left out."""

    type: Annotated[Name, bounds(enum=("thinking", "reasoning"))]
    thinking: object = None
    reasoning: object = None
    text: object = None


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: str


ContentPart = Annotated[dict[str, object], held(TextPart, RefusalPart, ThinkingPart)]
"""A part that has not been read yet."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says."""

    text: str = ""
    reasoning: str = ""


def read_parts(
    parts: Sequence[object],
    place: str,
    role: str,
    ignored: Ignored,
    *,
    is_past: bool = False,
) -> Content:
    """Returns the content of a message.

    Args:
        parts: Its parts.
        place: Where they stand in the request.
        role: The message's role in chat templates.
        ignored: Notes what is left out.
        is_past: Whether the message was answered already.

    Raises:
        RequestError: A part is wrong, or the message has another meaning without it.
    """
    texts, reasoning = [], []
    for number, part in enumerate(parts):
        here = f"{place}[{number}]"
        kind = convert(part, _Typed, here).type
        if kind in _TEXTS:
            texts.append(convert(part, TextPart, here).text)
        elif kind == "refusal":
            texts.append(convert(part, RefusalPart, here).refusal)
        elif kind in ("thinking", "reasoning") and role == "assistant":
            thought = convert(part, ThinkingPart, here)
            given = thought.thinking or thought.reasoning or thought.text
            reasoning.append(reasoning_text(given))
        elif kind in _MEDIA and role in ("system", "user") and not is_past:
            raise RequestError(
                f"{here}: content of type {kind!r} is not supported, only text is",
                param=here,
            )
        else:
            ignored.add("part", kind)
            if kind in _MEDIA and role != "assistant":
                texts.append(UNSEEN.format(kind))
    return Content("\n".join(texts), "\n".join(reasoning))


def reasoning_text(given: object) -> str:
    """Returns reasoning that is a text, or a list of texts or parts, as one text."""
    parts = given if isinstance(given, list) else [given]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if text and isinstance(text, str))
