"""Parsers that are written as one generator over the text of a reply."""

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Generator, Iterator
from typing import Generic, TypeVar

from hookline_server.reply_parsing.code_spans import CodeSpans
from hookline_server.reply_parsing.json_mender import JsonMender
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    ReasoningPart,
    Repair,
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

_PROSE = re.compile(r"\s*+(?:[^\W\d_][\w'’-]*+[,.;:!?]?\s+){2}[^\W\d_]")

LONGEST_SPACE = 64
"""Maximum white space before a call that is left out of the content."""


class SteppedParser(ABC, Generic[P]):
    """A parser whose `steps` read the whole text.

    Attributes:
        reader: The text.
        needs_special_tokens: See `ToolParser`.
        control_tokens: Texts that are left out of content and reasoning, wherever they
            stray: tags that only models write.
    """

    needs_special_tokens = True
    control_tokens: tuple[str, ...] = ()

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

    def cut(self) -> list[P]:
        """See `CutParser`."""
        self.reader.feed_eof(is_cut=True)
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
        ends: Texts that end the reasoning.
    """

    ends: tuple[str, ...] = ()

    def __init__(self, context: ReasoningParserContext) -> None:
        super().__init__()
        self.context = context
        self.is_reasoning = False

    def call_begun(self) -> list[ReasoningPart]:
        """Ends the reasoning where a call begins; returns what was held back."""
        was_reasoning = self.is_reasoning
        parts = self.finish()
        self.is_reasoning = False
        self.reader = Reader()
        self._steps = self.steps_after_call()
        return [*parts, Repair("reasoning")] if was_reasoning else parts

    def steps_after_call(self) -> ReasoningSteps[None]:
        """Yields the parts of the text behind a call; it is content by itself."""
        while not self.reader.is_over:
            if text := (yield from self.reader.take_all()):
                yield Content(text)


class SteppedToolParser(SteppedParser[ToolPart]):
    """A parser of a format in which markers announce calls.

    White space around calls is not content, nor are the markers. Text after a marker
    that is not a call is content, including the marker and white space.

    Attributes:
        tools: See `ToolParserContext`.
        reasoning_ends: See `ToolParserContext`.
        frames: Tags around contents and calls, which are left out.
        follows_call: Whether nothing but white space has come since a call.
    """

    frames: tuple[str, ...] = ()

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__()
        self.tools = context.tools
        self.reasoning_ends = tuple(context.reasoning_ends)
        self.follows_call = False
        self._space = ""
        self._unclosed = 0  # markers that are content
        self._code = CodeSpans()

    def content_until(
        self, markers: Markers, strays: Container[str] = ()
    ) -> ToolSteps[str | None]:
        """Yields the content up to the next marker and returns that; None at the end.

        From there on the reader records, for `not_a_call`.

        Args:
            markers: The markers, `strays` and `frames` among them.
            strays: Those that end a call. They are left out, unless they belong to a
                marker that was content, or are within code.
        """
        while True:
            piece, marker = yield from self.reader.read_until(markers)
            text = self._space + piece
            if self.follows_call:
                text = text.lstrip()
                if self.reader.is_over and self._is_cut_token(text):
                    text = ""
                self.follows_call = not text
            is_last = marker is None and self.reader.is_over
            sure = len(text) if is_last else self.certain_length(text)
            self._space = text[sure:]
            if sure:
                yield self._content(text[:sure])
            if marker in self.frames:
                continue
            if marker is not None and marker in strays:
                yield self._stray(marker)
            elif marker is not None or is_last:
                self.reader.record()
                return marker

    def _is_cut_token(self, text: str) -> bool:
        """Returns whether a reply has ended within the end of a call."""
        return any(token.startswith(text) for token in self.control_tokens)

    def certain_length(self, text: str) -> int:
        """Returns how much of a text is content, whatever follows."""
        return without_space(text)

    def _stray(self, marker: str) -> ToolPart:
        if not self.is_code:
            if not self._unclosed:
                return Repair("tag")
            self._unclosed -= 1
        text, self._space = self._space + marker, ""
        return self._content(text)

    def _content(self, text: str) -> Content:
        self._code.add(text)
        return Content(text)

    @property
    def is_code(self) -> bool:
        """Whether the content so far ends within code."""
        return self._code.is_open

    def not_a_call(self, marker: str) -> Content | Repair:
        """Returns what was read since the marker, including what was left out.

        White space at its end follows later, if no call does. Where the reply was cut
        short before it said whom it calls, there is nothing to return.
        """
        read = self.reader.recorded()
        if self.reader.is_cut and self._begins_call(marker) and not is_prose(read):
            self._space = ""
            self.reader.drop_rest()
            return Repair("cut")
        self.follows_call = False
        self._unclosed += bool(marker)
        text = self._space + marker + read
        sure = without_space(text)
        self._space = text[sure:]
        return self._content(text[:sure])

    def _begins_call(self, marker: str) -> bool:
        """Returns whether nothing but a call would have followed."""
        return self.follows_call or (len(marker) > 1 and not marker.startswith("`"))

    def begins_anew(self, marker: str) -> Content:
        """Returns a marker that has ended the reasoning; the reader records."""
        text, self._space = self._space + marker, ""
        self.follows_call = False
        self.reader.record()
        return self._content(text)

    def begin_call(self, name: str, call_id: str | None = None) -> CallBegun:
        """Returns the start of a call, which can no longer become content."""
        self.reader.recorded()
        self.follows_call, self._space = True, ""
        return CallBegun(self.known(name) or name, call_id)

    def known(self, name: str) -> str | None:
        """Returns which of the request's functions a model means; None if none."""
        name = name.strip(" \t\r\n\"'")
        if name in self.tools:
            return name
        name = name.removeprefix("functions.")
        return name if name in self.tools else None

    def json_arguments(self) -> ToolSteps[None]:
        """Yields the arguments of a call, a JSON value, as it was written."""
        mender = JsonMender()
        while not (mender.is_done or self.reader.is_over):
            if piece := (yield from self.reader.take_json(mender)):
                yield CallArguments(piece)


def is_prose(text: str) -> bool:
    """Returns whether a text begins with several words, as no call does."""
    return _PROSE.match(text) is not None


def without_space(text: str) -> int:
    """Returns the text's length without trailing white space, if that is short."""
    return max(len(text.rstrip()), len(text) - LONGEST_SPACE)
