"""Calls, reasoning and texts in their own tags, and citations: Cohere's Command.

Calls are a list of objects with `tool_name` and `parameters`. Their `tool_call_id`
counts the calls of a conversation; chat templates count anew, so that the server makes
the ids. Citations, `<co>text</co: 0:[1]>`, become plain text.
"""

import re
from collections.abc import Iterable
from functools import partial

from hookline_chat_formats.hermes import CallTags, TaggedJsonParser
from hookline_chat_formats.thinking import Tags, ThinkingParser
from hookline_server.reply_parsing.parts import (
    Content,
    Reasoning,
    ReasoningPart,
    ToolPart,
)
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import SteppedParser, Steps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_CITATION, _CITATION_END = "<co>", "</co"
_CITATIONS = Markers(_CITATION, _CITATION_END)
_TAG_ENDS = Markers(">")
_SOURCES = re.compile(r"[:\d,\[\] ]*")
_LONGEST_SOURCES = 256
_ACTION, _ACTION_END = "<|START_ACTION|>", "<|END_ACTION|>"
_RESPONSE = ("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_TEXT = ("<|START_TEXT|>", "<|END_TEXT|>")
_TURN_END = "<|END_OF_TURN_TOKEN|>"


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
            if self.reader.is_cut and sources is None:
                continue
            if sources is not None and _SOURCES.fullmatch(sources):
                yield from self.reader.accept(">")
            else:
                yield marker + (sources or "")


class _Texts:
    """The content and the reasoning of one reply, without the tags of citations."""

    def __init__(self) -> None:
        self._plain: dict[type[Content | Reasoning], _PlainText] = {
            Reasoning: _PlainText(),
            Content: _PlainText(),
        }

    def of(self, parts: Iterable[ToolPart]) -> list[ToolPart]:
        """Returns parts with plain texts."""
        found: list[ToolPart] = []
        for part in parts:
            if isinstance(part, Content | Reasoning):
                kind = type(part)
                found += [kind(text) for text in self._plain[kind].push(part.text)]
            else:
                found.append(part)
        return found

    def rest(self, *, is_cut: bool = False) -> list[ReasoningPart]:
        """Returns what was held back."""
        found: list[ReasoningPart] = []
        for kind, plain in self._plain.items():
            last = plain.cut() if is_cut else plain.finish()
            found += [kind(text) for text in last]
            self._plain[kind] = _PlainText()
        return found


class CohereParser(TaggedJsonParser):
    """`<|START_ACTION|>[{"tool_name": "f", "parameters": {…}}]<|END_ACTION|>`."""

    frames = (*_RESPONSE, *_TEXT, _TURN_END)

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context, CallTags(opens=(_ACTION,), closes=(_ACTION_END,)))
        self._texts = _Texts()

    def push(self, text: str) -> list[ToolPart]:
        return self._texts.of(super().push(text))

    def finish(self) -> list[ToolPart]:
        return [*self._texts.of(super().finish()), *self._texts.rest()]

    def cut(self) -> list[ToolPart]:
        return [*self._texts.of(super().cut()), *self._texts.rest(is_cut=True)]


class CohereThinkingParser(ThinkingParser):
    """Reasoning between `<|START_THINKING|>` and `<|END_THINKING|>`."""

    def __init__(
        self, context: ReasoningParserContext, answer: tuple[str, str]
    ) -> None:
        tags = Tags(
            opens=("<|START_THINKING|>",),
            closes=("<|END_THINKING|>",),
            answer=answer,
            answer_space="",
            frames=tuple({*_RESPONSE, *_TEXT, _TURN_END} - {*answer}),
        )
        super().__init__(context, tags)
        self._texts = _Texts()

    def push(self, text: str) -> list[ReasoningPart]:
        return self._plain(super().push(text))

    def finish(self) -> list[ReasoningPart]:
        return [*self._plain(super().finish()), *self._texts.rest()]

    def cut(self) -> list[ReasoningPart]:
        return [*self._plain(super().cut()), *self._texts.rest(is_cut=True)]

    def _plain(self, parts: Iterable[ReasoningPart]) -> list[ReasoningPart]:
        return [
            part for part in self._texts.of(parts) if isinstance(part, ReasoningPart)
        ]


Command3ThinkingParser = partial(CohereThinkingParser, answer=_RESPONSE)
Command4ThinkingParser = partial(CohereThinkingParser, answer=_TEXT)
