"""Messages with channels: gpt-oss (OpenAI's harmony format).

A reply is a series of messages, `<|channel|>CHANNEL<|message|>…<|end|>`, each but the
first after `<|start|>assistant`. The channel `analysis` is reasoning and any other is
content; a message with a recipient, `to=functions.NAME` in its header, is a call. A new
message ends the one before.
"""

import re
from collections.abc import Callable, Iterable

from hookline.structured_outputs import ReasoningSpan
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Reasoning,
    Repair,
)
from hookline_server.reply_parsing.reader import Markers, Reader, Waits
from hookline_server.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    SteppedToolParser,
    Steps,
    ToolSteps,
    is_prose,
)
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_START, _CHANNEL, _MESSAGE = "<|start|>", "<|channel|>", "<|message|>"
_CONSTRAIN = "<|constrain|>"
_CLOSES = ("<|end|>", "<|call|>", "<|return|>")
_TOKENS = (_START, _CHANNEL, _MESSAGE, _CONSTRAIN, *_CLOSES)
_BEGINS = Markers(_START, _CHANNEL)
_HEADER_ENDS = Markers(_START, _CHANNEL, _MESSAGE, *_CLOSES)
_TEXT_ENDS = Markers(_START, _CHANNEL, *_CLOSES)
_RECIPIENT = re.compile(r"\bto=(functions\.)?([\w.-]+)")
_HEADER = re.compile(
    r"\s*(?:assistant|analysis|commentary|final)?\s*(?:to=\S*)?\s*(?:json|code)?\s*"
)
"""The text between the tokens of a header."""

MessagePart = Reasoning | Content | CallBegun | CallArguments | Repair


class Messages:
    """Reads the messages of a reply.

    Attributes:
        is_reasoning: Whether the text so far ends within reasoning.
    """

    def __init__(
        self, reader: Reader, begin_call: Callable[[str, str], CallBegun | None]
    ) -> None:
        """Reads nothing yet.

        Args:
            reader: The text.
            begin_call: Returns the start of a call of what a header names, given the
                recipient's prefix and name; None if it is no function.
        """
        self._reader = reader
        self._begin_call = begin_call
        self.is_reasoning = False

    def steps(self) -> Steps[MessagePart, None]:
        """Yields the parts of all messages."""
        self._reader.record()
        yield from self._reader.skip_space()
        marker: str | None = None
        for begin in ("to=", _CHANNEL, _START):
            if (yield from self._reader.is_at(begin)):
                marker = "" if begin == "to=" else None
                self._reader.record()
        if space := self._reader.recorded():
            yield Content(space)
        while not self._reader.is_over:
            if marker is None:
                text, marker = yield from self._reader.read_until(_BEGINS)
                if text:
                    yield Content(text)
            if marker is not None:
                marker = yield from self._message(marker)

    def _message(self, marker: str) -> Steps[MessagePart, str | None]:
        """Reads a message behind its first token; returns one that begins another."""
        header = [marker]
        found: str | None = _CHANNEL
        while found == _CHANNEL:  # behind the role, or behind a channel without text
            text, found = yield from self._header()
            header += [text, found or ""]
        whole = "".join(header)
        recipient = _RECIPIENT.search(whole)
        called = None if recipient is None else (recipient[1] or "", recipient[2])
        if found == _MESSAGE:
            if text := _no_header(header[1:-2:2]):
                yield Content(text)
            call = called and self._begin_call(*called)
            if isinstance(call, CallBegun):
                yield call
            channel = header[-2].split()
            is_reasoning = bool(channel) and channel[0].startswith("analysis")
            return (
                yield from self._body(is_call=bool(call), is_reasoning=is_reasoning)
            )
        if self._reader.is_cut and not is_prose(header[-2]):
            is_whole = recipient is not None and recipient.end() < len(whole)
            begun = self._begin_call(*called) if called and is_whole else None
            yield begun or Repair("cut")
            return None
        yield from self._without_message(header[1::2], called)
        return found if found == _START else None

    def _without_message(
        self, texts: list[str], called: tuple[str, str] | None
    ) -> Steps[MessagePart, None]:
        """Yields what is in the header of a message without a text."""
        _, brace, arguments = texts[-1].partition("{")
        call = called and brace and self._begin_call(*called)
        if isinstance(call, CallBegun):
            yield call
            yield CallArguments(brace + arguments)
            yield Repair("markup")
            return
        if text := _no_header(texts):
            yield Content(text)

    def _header(self) -> Waits[tuple[str, str | None]]:
        """Reads text of a header, if it is short, and the token that ends it."""
        self._reader.record()
        text = yield from self._reader.before(_HEADER_ENDS)
        read = self._reader.recorded()
        if text is not None:
            _, marker = yield from self._reader.read_until(_HEADER_ENDS)
            return text, marker
        is_last = self._reader.has_ended
        return read + ((yield from self._reader.take_all()) if is_last else ""), None

    def _body(
        self, *, is_call: bool, is_reasoning: bool
    ) -> Steps[MessagePart, str | None]:
        """Reads a message's text; returns the token that begins another message."""
        self.is_reasoning = is_reasoning and not is_call
        marker = None
        while marker is None and not self._reader.is_over:
            text, marker = yield from self._reader.read_until(_TEXT_ENDS)
            if text and is_call:
                yield CallArguments(text)
            elif text:
                yield Reasoning(text) if self.is_reasoning else Content(text)
        self.is_reasoning = False
        if marker in (_START, _CHANNEL):
            yield Repair("markup")
            return marker
        return None


def _no_header(texts: Iterable[str]) -> str:
    """Returns what in a header cannot belong to one."""
    return "".join(each for each in texts if not _HEADER.fullmatch(each))


class HarmonyToolParser(SteppedToolParser):
    """Finds calls, and reasoning, too."""

    control_tokens = _TOKENS

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._messages = Messages(self.reader, self._called)

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends within reasoning."""
        return self._messages.is_reasoning

    def steps(self) -> ToolSteps[None]:
        yield from self._messages.steps()

    def _called(self, prefix: str, name: str) -> CallBegun | None:
        is_call = bool(prefix) or self.known(name) is not None
        return self.begin_call(name) if is_call else None


class HarmonyReasoningParser(SteppedReasoningParser):
    """Finds reasoning and content where no call is looked for."""

    control_tokens = _TOKENS

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
        messages = Messages(self.reader, lambda *_: None)
        for part in messages.steps():
            self.is_reasoning = messages.is_reasoning
            assert not isinstance(part, CallBegun | CallArguments), "there is no call"
            yield part
        self.is_reasoning = False
