"""Parsers that are written as one generator over the text of a reply."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

from hookline_server.reply_parsing.json_scanner import JsonScanner
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    ReasoningPart,
    ToolPart,
)
from hookline_server.reply_parsing.reader import Markers, Reader
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.tool_parser import ToolParserContext

R = TypeVar("R")
P = TypeVar("P")

Steps = Generator[P | None, None, R]
"""Yields parts, or None whenever it waits for more text, and finally returns an R."""

ToolSteps = Steps[ToolPart, R]
ReasoningSteps = Steps[ReasoningPart, R]

LONGEST_SPACE = 64
"""Maximum white space before a call that is left out of the content."""


class SteppedParser(ABC, Generic[P]):
    """A parser whose `steps` read the whole text.

    Attributes:
        reader: The text.
        needs_special_tokens: See `ToolParser`.
    """

    needs_special_tokens = True

    def __init__(self) -> None:
        self.reader = Reader()
        self._steps: Iterator[P | None] = self.steps()

    @abstractmethod
    def steps(self) -> Steps[P, None]:
        """Yields the parts of the reply; returns when `reader.is_over`."""

    def push(self, text: str) -> list[P]:
        self.reader.add(text)
        return self._parts()

    def finish(self) -> list[P]:
        self.reader.feed_eof()
        return self._parts()

    def _parts(self) -> list[P]:
        parts = []
        for part in self._steps:
            if part is None:
                break
            parts.append(part)
        return parts


class SteppedReasoningParser(SteppedParser[ReasoningPart]):
    """A parser of reasoning.

    Attributes:
        context: What it may know.
        is_reasoning: Whether the text so far ends within reasoning.
    """

    def __init__(self, context: ReasoningParserContext) -> None:
        super().__init__()
        self.context = context
        self.is_reasoning = False


class SteppedToolParser(SteppedParser[ToolPart]):
    """A parser of a format in which markers announce calls.

    White space around calls is not content, nor are the markers. Text after a marker
    that is not a call is content, including the marker and white space.

    Attributes:
        tools: See `ToolParserContext`.
    """

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__()
        self.tools = context.tools
        self._follows_call = False
        self._space = ""

    def content_until(self, markers: Markers) -> ToolSteps[str | None]:
        """Yields the content up to the next marker and returns that; None at the end.

        From there on the reader records, for `not_a_call`.
        """
        self._space = ""
        while True:
            piece, marker = yield from self.reader.read_until(markers)
            text = self._space + piece
            if self._follows_call:
                text = text.lstrip()
                self._follows_call = not text
            is_last = marker is None and self.reader.is_over
            sure = len(text) if is_last else without_space(text)
            self._space = text[sure:]
            if sure:
                yield Content(text[:sure])
            if marker is not None or is_last:
                self.reader.record()
                return marker

    def not_a_call(self, marker: str) -> Content:
        """Returns what was read since the marker, including what was left out."""
        self._follows_call = False
        return Content(self._space + marker + self.reader.recorded())

    def begin_call(self, name: str, call_id: str | None = None) -> CallBegun:
        """Returns the start of a call, which can no longer become content."""
        self.reader.recorded()
        self._follows_call = True
        return CallBegun(name, call_id)

    def json_arguments(self) -> ToolSteps[None]:
        """Yields the arguments of a call, a JSON value, as it was written."""
        scanner = JsonScanner()
        while not (scanner.is_done or self.reader.is_over):
            if piece := (yield from self.reader.take_json(scanner)):
                yield CallArguments(piece)


def without_space(text: str) -> int:
    """Returns the text's length without trailing white space, if that is short."""
    return max(len(text.rstrip()), len(text) - LONGEST_SPACE)
