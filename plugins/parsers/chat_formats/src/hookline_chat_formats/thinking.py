"""Reasoning between an opening and a closing tag, in the tags of each model."""

from dataclasses import dataclass
from functools import partial

from hookline.structured_outputs import ReasoningSpan
from hookline_server.reply_parsing.code_spans import CodeSpans
from hookline_server.reply_parsing.parts import Content, Reasoning, Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    without_space,
)

_QUOTES = ("'", '"', "`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """How models of one family mark reasoning.

    Attributes:
        opens: Texts that begin it.
        closes: Texts that end it.
        begins_by_itself: Whether reasoning begins even if nothing says so.
        answer: Tags around the content after it, which are left out; none if empty.
        answer_space: What models write beside the first of these.
        frames: Further tags that are left out of the content.
        end: Text that ends it in all spellings; empty for the only one of `closes`.
        is_prose: Whether the texts are words, which mean nothing within the content.
    """

    opens: tuple[str, ...] = ("<think>",)
    closes: tuple[str, ...] = ("</think>",)
    begins_by_itself: bool = False
    answer: tuple[str, str] | None = None
    answer_space: str = "\n"
    frames: tuple[str, ...] = ()
    end: str = ""
    is_prose: bool = False


class ThinkingParser(SteppedReasoningParser):
    """Models that reason begin with an opening tag.

    The chat template may write that, or rule it out with the closing one. White space
    beside the tags belongs to neither part. Later blocks are reasoning, too, and other
    tags are left out, unless they stand in quotes or in code.
    """

    def __init__(
        self, context: ReasoningParserContext, tags: Tags | None = None
    ) -> None:
        super().__init__(context)
        self._tags = tags = tags or Tags()
        end = context.prompt_end.rstrip()
        self._is_closed = end.endswith(tags.closes)
        self._is_open = not self._is_closed and end.endswith(tags.opens)
        self.ends = tags.closes
        self.is_reasoning = self._is_open or (
            tags.begins_by_itself and context.is_chat and not self._is_closed
        )
        self._inner = Markers(*tags.closes, *(() if tags.is_prose else tags.opens))
        self._outer = Markers(
            *tags.opens, *tags.closes, *(tags.answer or ()), *tags.frames
        )
        self._is_plain = context.is_structured or tags.is_prose
        self._code = CodeSpans()
        self._last = ""  # character of the content

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """Where a structured output begins; see `ReasoningBeforeGrammar`."""
        tags = self._tags
        if self._is_closed:
            return None
        is_begun = self._is_open or tags.begins_by_itself
        lead = tags.answer_space.join(("", tags.answer[0], "")) if tags.answer else ""
        return ReasoningSpan(
            begin="" if is_begun else tags.opens[0],
            is_optional=not is_begun,
            end=tags.end or tags.closes[0],
            lead=lead,
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
                yield self._content(text)
        if self._tags.answer is not None:
            yield from self._begin_answer(self._tags.answer[0])
        yield from self.steps_after_call()

    def steps_after_call(self) -> ReasoningSteps[None]:
        if self._is_plain:
            yield from super().steps_after_call()
            return
        space = ""
        while not self.reader.is_over:
            piece, marker = yield from self.reader.read_until(self._outer)
            text = space + piece
            sure = len(text)
            if self._tags.answer is not None and not (
                marker is None and self.reader.is_over
            ):
                sure = without_space(text)
            if sure:
                yield self._content(text[:sure])
            space = text[sure:]
            if marker is not None and marker not in self._tags.frames:
                yield from self._tag(marker, space)
                space = ""

    def _tag(self, marker: str, space: str) -> ReasoningSteps[None]:
        """Reads what a tag within the content begins, if it is one."""
        tags = self._tags
        is_quoted = self._last in _QUOTES and not space
        is_quoted = is_quoted and (yield from self.reader.peek()) == self._last
        if is_quoted or self._code.is_open:
            yield self._content(space + marker)
            return
        if marker in tags.opens:
            if space:
                yield self._content(space)
            self.is_reasoning = True
            yield from self._reasoning()
            return
        if tags.answer is None or marker != tags.answer[1]:
            yield Repair("tag")
        if not self._last or self._last.isspace() or tags.answer is not None:
            yield from self.reader.skip_space()
        elif space:
            yield self._content(space)

    def _reasoning(self) -> ReasoningSteps[None]:
        """Reads a block, and white space behind it if the content does not begin."""
        self.reader.recorded()
        yield from self.reader.skip_space()
        space = ""
        while True:
            piece, marker = yield from self.reader.read_until(self._inner)
            text = space + piece
            sure = without_space(text)
            if sure:
                yield Reasoning(text[:sure])
            space = text[sure:]
            if marker in self._tags.closes:
                break
            if marker is not None:
                yield Repair("tag")
            elif self.reader.is_over:
                return
        self.is_reasoning = False
        if not self._last or self._last.isspace():
            yield from self.reader.skip_space()

    def _begin_answer(self, begin: str) -> ReasoningSteps[None]:
        """Reads an opening tag of the answer, or nothing."""
        self.reader.record()
        yield from self.reader.skip_space()
        is_tagged = yield from self.reader.accept(begin)
        read = self.reader.recorded()
        if is_tagged:
            yield from self.reader.skip_space()
        elif read:
            yield self._content(read)

    def _content(self, text: str) -> Content:
        self._code.add(text)
        self._last = text[-1:]
        return Content(text)


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
        is_prose=True,
    ),
)

HunyuanParser = partial(ThinkingParser, tags=Tags(answer=("<answer>", "</answer>")))

ApertusThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("<|inner_prefix|>",), closes=("<|inner_suffix|>",))
)
GemmaThinkingParser = partial(
    ThinkingParser,
    tags=Tags(
        opens=("<|channel>thought",),
        closes=("<channel|>",),
        frames=("<turn|>", "<|tool_response>"),
    ),
)
MiniMaxM3ThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("<mm:think>",), closes=("</mm:think>",))
)
MistralThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("[THINK]",), closes=("[/THINK]",))
)

SeedThinkingParser = partial(
    ThinkingParser, tags=Tags(opens=("<seed:think>",), closes=("</seed:think>",))
)
