"""Calls, reasoning and texts in their own tags, and citations: Cohere's Command.

Calls are a list of objects with `tool_name` and `parameters`. Their `tool_call_id`
counts the calls of the conversation; chat templates number them anew, so the server
makes the ids. Citations, `<co>text</co: 0:[1]>`, become plain text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from hookline_chat_formats.hermes import CallTags, TaggedJsonParser
from hookline_chat_formats.thinking import Tags, ThinkingParser
from hookline_server.reply_parsing.parts import Content, Reasoning
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import SteppedParser, Steps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

P = TypeVar("P")

_CITATION, _CITATION_END = "<co>", "</co"
_CITATIONS = Markers(_CITATION, _CITATION_END)
_TAG_ENDS = Markers(">")
_SOURCES = re.compile(r"[:\d,\[\] ]*")
_LONGEST_SOURCES = 256
_ACTION, _ACTION_END = "<|START_ACTION|>", "<|END_ACTION|>"
_FRAMES = (
    *("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    *(_ACTION, _ACTION_END, "<|END_OF_TURN_TOKEN|>"),
)


class _PlainText(SteppedParser[str]):
    """Leaves the tags of citations out of a text."""

    def steps(self) -> Steps[str, None]:
        while not self.reader.is_over:
            text, marker = yield from self.reader.read_until(_CITATIONS)
            if text:
                yield text
            if marker != _CITATION_END:
                continue
            sources = yield from self.reader.before(_TAG_ENDS, _LONGEST_SOURCES)
            if sources is not None and _SOURCES.fullmatch(sources):
                yield from self.reader.accept(">")
            else:
                yield marker + (sources or "")


class _Texts:
    """The texts of one reply, each kind of which has citations of its own."""

    def __init__(self) -> None:
        self._content = _PlainText()
        self._reasoning = _PlainText()

    def plain(self, parts: Iterable[P]) -> Iterator[P | Content | Reasoning]:
        """Yields parts without the tags of citations in their texts."""
        for part in parts:
            match part:
                case Content(text):
                    yield from map(Content, self._content.push(text))
                case Reasoning(text):
                    yield from map(Reasoning, self._reasoning.push(text))
                case other:
                    yield other

    def rest(self) -> Iterator[Content | Reasoning]:
        """Yields what has been held back."""
        yield from map(Reasoning, self._reasoning.finish())
        yield from map(Content, self._content.finish())


class CohereParser(TaggedJsonParser):
    """`<|START_ACTION|>[{"tool_name": "f", "parameters": {…}}]<|END_ACTION|>`."""

    control_tokens = _FRAMES

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context, CallTags(opens=(_ACTION,), closes=(_ACTION_END,)))


class CohereThinkingParser(ThinkingParser):
    """Reasoning between `<|START_THINKING|>` and `<|END_THINKING|>`."""
