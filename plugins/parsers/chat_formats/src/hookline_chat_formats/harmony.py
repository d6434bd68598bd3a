"""Messages with channels: gpt-oss (OpenAI's harmony format).

A reply is a series of messages, `<|channel|>CHANNEL<|message|>…<|end|>`, each but the
first after `<|start|>assistant`. The channel `analysis` is reasoning and `final` is
content; a message with a recipient, `to=functions.NAME` in its header, is a call.
"""

import re

from hookline.structured_outputs import ReasoningSpan
from hookline_server.reply_parsing.parts import (
    CallArguments,
    Content,
    Reasoning,
)
from hookline_server.reply_parsing.reader import Markers, Reader, Waits
from hookline_server.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    SteppedToolParser,
    ToolSteps,
)

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_BEGINS = Markers(_START, _CHANNEL)
_MESSAGES = Markers(_MESSAGE)
_ENDS = Markers("<|end|>", "<|call|>", "<|return|>")
_FUNCTION = re.compile(r"\bto=functions\.([\w.-]+)")
_REASONING = re.compile(r"<\|channel\|>analysis\b")


def _header(reader: Reader) -> Waits[str | None]:
    """Reads the rest of a header and the marker after it; None if there is none."""
    header = yield from reader.before(_MESSAGES)
    if header is not None:
        yield from reader.accept(_MESSAGE)
    return header


def _first_header(reader: Reader) -> Waits[str | None]:
    """Reads the first message's header, before which the prompt has `<|start|>`."""
    yield from reader.skip_space()
    for begin in (_CHANNEL, "to="):
        if (yield from reader.accept(begin)):
            rest = yield from _header(reader)
            return None if rest is None else begin + rest
    return None


class HarmonyToolParser(SteppedToolParser):
    """Finds calls; also in what `HarmonyReasoningParser` has left."""

    def steps(self) -> ToolSteps[None]:
        self.reader.record()
        header = yield from _first_header(self.reader)
        if header is None:
            yield self.not_a_call("")
        else:
            yield from self._message(header)
        while (marker := (yield from self.content_until(_BEGINS))) is not None:
            header = yield from _header(self.reader)
            if header is None:
                yield self.not_a_call(marker)
            else:
                yield from self._message(marker + header)

    def _message(self, header: str) -> ToolSteps[None]:
        function = _FUNCTION.search(header)
        self.reader.recorded()
        if function is not None:
            yield self.begin_call(function[1])
        is_reasoning = _REASONING.search(header) is not None
        is_empty = True
        marker = None
        while marker is None and not self.reader.is_over:
            text, marker = yield from self.reader.read_until(_ENDS)
            if not text:
                continue
            is_empty = False
            if function is not None:
                yield CallArguments(text)
            elif not is_reasoning:
                yield Content(text)
        if function is not None and is_empty and marker is not None:
            yield CallArguments("{}")


class HarmonyReasoningParser(SteppedReasoningParser):
    """Finds reasoning and content; calls are left as they are, for the tool parser."""

    @property
    def reasoning_span(self) -> ReasoningSpan:
        """Where a structured output begins; see `ReasoningBeforeGrammar`.

        It is a message to the user, after one with reasoning.
        """
        return ReasoningSpan(
            begin=f"{_CHANNEL}analysis{_MESSAGE}",
            end="<|end|>",
            lead=f"{_START}assistant{_CHANNEL}final{_MESSAGE}",
        )

    def steps(self) -> ReasoningSteps[None]:
        self.reader.record()
        header = yield from _first_header(self.reader)
        if header is None:
            yield Content(self.reader.recorded())
        else:
            yield from self._message(header)
        marker: str | None = None
        while not self.reader.is_over:
            text, marker = yield from self.reader.read_until(_BEGINS)
            if text:
                yield Content(text)
            if marker is None:
                continue
            self.reader.record()
            header = yield from _header(self.reader)
            if header is None:
                yield Content(marker + self.reader.recorded())
            else:
                yield from self._message(marker + header)

    def _message(self, header: str) -> ReasoningSteps[None]:
        self.reader.recorded()
        is_call = _FUNCTION.search(header) is not None
        self.is_reasoning = _REASONING.search(header) is not None and not is_call
        if is_call:
            start = "" if header.startswith(_START) else f"{_START}assistant "
            yield Content(f"{start}{header}{_MESSAGE}")
        marker = None
        while marker is None and not self.reader.is_over:
            text, marker = yield from self.reader.read_until(_ENDS)
            if self.is_reasoning and text:
                yield Reasoning(text)
            elif not self.is_reasoning and (text or (is_call and marker)):
                yield Content(text + (marker or "" if is_call else ""))
        self.is_reasoning = False
