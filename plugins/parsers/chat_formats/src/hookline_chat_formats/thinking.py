"""Reasoning between an opening and a closing tag, in the tags of each model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from hookline.structured_outputs import ReasoningSpan
from hookline_server.reply_parsing.parts import Content, Reasoning
from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    without_space,
)

_CALLS: Mapping[str, tuple[str, ...]] = {
    "<tool_call>": ("<function=", '{"name"', "{'name'")
}
"""The start of a call in the tags of most models, which may forget `</think>`."""
_GLM_KEY = Markers("<arg_key>")
"""What follows the name of a function in calls of GLM."""
_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """How models of one family mark reasoning.

    Attributes:
        opens: Texts that begin it.
        closes: Texts that end it.
        begins_by_itself: Whether reasoning begins even if nothing says so.
        interrupts: Texts that end it, too, and are content: the start of a call, and
            what has to follow that and white space; anything, if that is empty.
        answer: Tags around the content after it, which are left out; none if empty.
        end: Text that ends it in all spellings; empty for the only one of `closes`.
    """

    opens: tuple[str, ...] = ("<think>",)
    closes: tuple[str, ...] = ("</think>",)
    begins_by_itself: bool = False
    interrupts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _CALLS)
    answer: tuple[str, str] | None = None
    end: str = ""


@dataclass(frozen=True, slots=True)
class _Interrupt:
    """What may be the start of a call.

    Attributes:
        text: The text, with white space.
        is_one: Whether it is.
    """

    text: str
    is_one: bool


class ThinkingParser(SteppedReasoningParser):
    """Models that reason begin with an opening tag.

    The chat template may write that, or rule it out with the closing one. White space
    beside the tags belongs to neither part.
    """

    def __init__(
        self, context: ReasoningParserContext, tags: Tags | None = None
    ) -> None:
        super().__init__(context)
        self._tags = tags = tags or Tags()
        end = context.prompt_end.rstrip()
        self._is_closed = end.endswith(tags.closes)
        self._is_open = not self._is_closed and end.endswith(tags.opens)
        self.is_reasoning = self._is_open or (
            tags.begins_by_itself and context.is_chat and not self._is_closed
        )

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """Where a structured output begins; see `ReasoningBeforeGrammar`."""
        tags = self._tags
        if self._is_closed:
            return None
        is_begun = self._is_open or tags.begins_by_itself
        return ReasoningSpan(
            begin="" if is_begun else tags.opens[0],
            is_optional=not is_begun,
            end=tags.end or tags.closes[0],
            lead=f"\n{tags.answer[0]}\n" if tags.answer else "",
        )

    def steps(self) -> ReasoningSteps[None]:
        if not self._is_closed:
            self.reader.record()
            yield from self.reader.skip_space()
            for text in self._tags.opens:
                if (yield from self.reader.accept(text)):
                    self.is_reasoning = True
                    break
            if self.is_reasoning:
                yield from self._reasoning()
            elif text := self.reader.recorded():
                yield Content(text)
        if self._tags.answer is not None:
            yield from self._answer(*self._tags.answer)
        while not self.reader.is_over:
            if text := (yield from self.reader.take_all()):
                yield Content(text)

    def _reasoning(self) -> ReasoningSteps[None]:
        self.reader.recorded()
        yield from self.reader.skip_space()
        calls = self._tags.interrupts if self.context.may_call else {}
        ends = Markers(*self._tags.closes, *calls)
        space = ""
        while True:
            piece, marker = yield from self.reader.read_until(ends)
            call: _Interrupt | None = None
            if marker is not None and marker in calls:
                call = yield from self._call(marker, calls[marker])
            text = space + piece
            if call is not None and not call.is_one:
                text, marker = text + call.text, None
            sure = without_space(text)
            if sure:
                yield Reasoning(text[:sure])
            space = text[sure:]
            if marker is not None:
                break
            if self.reader.is_over:
                return
        self.is_reasoning = False
        if call is None:
            yield from self.reader.skip_space()
        else:
            yield Content(call.text)

    def _call(self, marker: str, followers: tuple[str, ...]) -> Waits[_Interrupt]:
        """Reads on after the start of a call until it is certain."""
        self.reader.record()
        yield from self.reader.skip_space()
        is_one = not followers
        for follower in followers:
            is_one = is_one or (yield from self.reader.is_at(follower))
        if not is_one and (yield from self.reader.before(_GLM_KEY, _LONGEST_NAME)):
            is_one = True
        return _Interrupt(marker + self.reader.recorded(), is_one)

    def _answer(self, begin: str, end: str) -> ReasoningSteps[None]:
        """Reads the content within its tags; without an opening tag, reads nothing."""
        self.reader.record()
        yield from self.reader.skip_space()
        is_tagged = yield from self.reader.accept(begin)
        read = self.reader.recorded()
        if not is_tagged:
            if read:
                yield Content(read)
            return
        yield from self.reader.skip_space()
        ends, space = Markers(end), ""
        while True:
            piece, marker = yield from self.reader.read_until(ends)
            text = space + piece
            is_cut = marker is None and self.reader.is_over
            sure = len(text) if is_cut else without_space(text)
            if sure:
                yield Content(text[:sure])
            space = text[sure:]
            if marker is not None or is_cut:
                break
        yield from self.reader.skip_space()


_THINKS_ALWAYS = Tags(begins_by_itself=True)

DeepSeekR1Parser = partial(ThinkingParser, tags=_THINKS_ALWAYS)
"""DeepSeek R1, QwQ, MiniMax M2 and Step 3 always reason, whether model or template
writes `<think>`.
"""

ErnieParser = partial(
    ThinkingParser,
    tags=Tags(begins_by_itself=True, answer=("<response>", "</response>")),
)

GraniteParser = partial(
    ThinkingParser,
    tags=Tags(
        opens=("Here is my thought process:", "Here's my thought process:"),
        closes=("Here is my response:", "Here's my response:"),
        end="my response:",
    ),
)

HunyuanParser = partial(ThinkingParser, tags=Tags(answer=("<answer>", "</answer>")))

KimiParser = partial(
    ThinkingParser, tags=Tags(interrupts={"<|tool_calls_section_begin|>": ()})
)

MistralThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("[THINK]",), closes=("[/THINK]",))
)

SeedThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("<seed:think>",), closes=("</seed:think>",))
)
