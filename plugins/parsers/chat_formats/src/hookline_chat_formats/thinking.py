"""Reasoning between an opening and a closing tag, in the tags of each model."""

from dataclasses import dataclass
from functools import partial

from hookline.reply_parsing.parts import Content, Reasoning
from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    without_space,
)
from hookline.structured_outputs import ReasoningSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """How models of one family mark reasoning.

    Attributes:
        opens: Texts that begin it.
        closes: Texts that end it.
        begins_by_itself: Whether reasoning begins even if nothing says so.
        interrupts: Texts that end it, too, and are content.
        answer: Tags around the content behind it, which are left out; none if empty.
        end: Text that ends it in all spellings; empty for the only one of `closes`.
    """

    opens: tuple[str, ...] = ("<think>",)
    closes: tuple[str, ...] = ("</think>",)
    begins_by_itself: bool = False
    interrupts: tuple[str, ...] = ()
    answer: tuple[str, str] | None = None
    end: str = ""


class ThinkingParser(SteppedReasoningParser):
    """Whoever reasons begins with an opening tag.

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
            tags.begins_by_itself and not self._is_closed
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
        ends = Markers(*self._tags.closes, *self._tags.interrupts)
        space = ""
        while True:
            piece, marker = yield from self.reader.take(ends)
            text = space + piece
            sure = without_space(text)
            if sure:
                yield Reasoning(text[:sure])
            space = text[sure:]
            if marker is not None:
                break
            if self.reader.is_over:
                return
        self.is_reasoning = False
        if marker in self._tags.interrupts:
            yield Content(marker)
        else:
            yield from self.reader.skip_space()

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
            piece, marker = yield from self.reader.take(ends)
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
"""DeepSeek R1, QwQ, MiniMax M2 and Step 3 always reason, whoever writes `<think>`."""

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
    ThinkingParser, tags=Tags(interrupts=("<|tool_calls_section_begin|>",))
)

MistralThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("[THINK]",), closes=("[/THINK]",))
)

SeedThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("<seed:think>",), closes=("</seed:think>",))
)
