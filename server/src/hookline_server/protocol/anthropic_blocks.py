"""The blocks of Anthropic's messages, and their texts.

Blocks are read one by one, so that one of an unknown type spoils no request.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from hookline.exceptions import RequestError
from hookline_server.protocol.ignored import UNSEEN, Ignored
from hookline_server.protocol.schema_notes import bounds, held
from hookline_server.protocol.wire import Name, convert

MEDIA = frozenset({"audio", "document", "file", "image", "video"})
"""Types of blocks that a model which reads text cannot use."""


class TextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Text, in messages, in the system prompt and in results."""

    type: Annotated[Name, bounds(const="text")]
    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning of the assistant; its signature is not checked."""

    type: Annotated[Name, bounds(const="thinking")]
    thinking: str = ""


class ToolUseBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A call of the assistant."""

    type: Annotated[Name, bounds(const="tool_use")]
    id: str
    name: str
    input: Annotated[object, msgspec.Meta(extra_json_schema={"type": "object"})] = None


class ToolResultBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call: a text, or blocks."""

    type: Annotated[Name, bounds(const="tool_result")]
    tool_use_id: str
    content: object = None


class DocumentSource(msgspec.Struct, frozen=True, kw_only=True):
    """What a document consists of; only text is read."""

    type: Name
    data: str = ""
    content: object = None


class DocumentBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A document, as text."""

    type: Annotated[Name, bounds(const="document")]
    source: DocumentSource
    title: str | None = None
    context: str | None = None


class SearchResultBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What a client found in a search of its own."""

    type: Annotated[Name, bounds(const="search_result")]
    source: str = ""
    title: str = ""
    content: object = None


class ToolReferenceBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a tool, which a search for tools has found."""

    type: Annotated[Name, bounds(const="tool_reference")]
    tool_name: str


class SystemBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions in the midst of a conversation."""

    type: Annotated[Name, bounds(const="mid_conv_system")]
    content: object = None


Block = Annotated[
    dict[str, object],
    held(
        *(TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock, DocumentBlock),
        *(SearchResultBlock, ToolReferenceBlock, SystemBlock),
    ),
]
"""A block that has not been read yet."""


class _Typed(msgspec.Struct, frozen=True, kw_only=True):
    type: str


def block_type(block: object, place: str) -> str:
    """Returns the type of a block; raises `RequestError` if it has none."""
    return convert(block, _Typed, place).type


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads the texts of blocks.

    Attributes:
        ignored: Notes what is left out.
        is_past: Whether the blocks were answered already, or a tool has returned them.
        is_inner: Whether they are those of a block, which can only be texts.
    """

    ignored: Ignored
    is_past: bool = False
    is_inner: bool = False

    def joined(self, given: object, place: str) -> str:
        """Returns the text of a system prompt, or of what a tool has returned.

        Args:
            given: A text, blocks or nothing.
            place: Where it stands in the request.

        Raises:
            RequestError: What `text` raises.
        """
        if given is None or isinstance(given, str):
            return given or ""
        blocks = given if isinstance(given, list) else [given]
        texts = (
            self.text(block, f"{place}[{index}]") for index, block in enumerate(blocks)
        )
        return "\n".join(text for text in texts if text is not None)

    def text(self, block: object, place: str) -> str | None:
        """Returns the text of a block; None if it has none that the model can use.

        Raises:
            RequestError: It has no text where it should, or consists of something else,
                so that the conversation has another meaning without it.
        """
        kind = block_type(block, place)
        match kind:
            case "text":
                return convert(block, TextBlock, place).text
            case _ if self.is_inner:
                pass
            case "search_result":
                found = convert(block, SearchResultBlock, place)
                text = self._inner(found.content, f"{place}.content")
                return "\n".join(filter(None, (found.title, found.source, text)))
            case "mid_conv_system":
                content = convert(block, SystemBlock, place).content
                return self._inner(content, f"{place}.content")
            case "tool_reference" if self.is_past:
                return convert(block, ToolReferenceBlock, place).tool_name
            case "document" if (document := self._document(block, place)) is not None:
                return document
            case _ if kind in MEDIA and not self.is_past:
                raise RequestError(
                    f"{place}: a block of type {kind!r} is not supported, as this "
                    "model reads only text",
                    param=place,
                )
            case _:
                pass
        self.ignored.add("block", kind)
        return UNSEEN.format(kind) if kind in MEDIA else None

    def _inner(self, given: object, place: str) -> str:
        return replace(self, is_inner=True).joined(given, place)

    def _document(self, block: object, place: str) -> str | None:
        """Returns a document with its title; None if it is not a text."""
        if not isinstance(block, dict) or not isinstance(block.get("source"), dict):
            return None
        document = convert(block, DocumentBlock, place)
        match document.source.type:
            case "text":
                text = document.source.data
            case "content":
                text = self._inner(document.source.content, f"{place}.source.content")
            case _:
                return None
        return "\n".join(filter(None, (document.title, document.context, text)))
