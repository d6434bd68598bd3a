"""Reasoning between `<think>` and `</think>`."""

from hookline.reply_parsing.parts import Content, Reasoning
from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
    without_space,
)

_OPEN, _CLOSE = "<think>", "</think>"
_CLOSES = Markers(_CLOSE)


class ThinkingParser(SteppedReasoningParser):
    """Qwen 3, GLM 4.5, DeepSeek V3.1: whoever reasons begins with `<think>`.

    The chat template may write that, or rule it out with `</think>`.

    White space beside the tags belongs to neither part.
    """

    begins_by_itself = False
    """Whether reasoning begins even if nothing says so."""

    def __init__(self, context: ReasoningParserContext) -> None:
        super().__init__(context)
        end = context.prompt_end.rstrip()
        self._is_closed = end.endswith(_CLOSE)
        self.is_reasoning = not self._is_closed and (
            end.endswith(_OPEN) or self.begins_by_itself
        )

    def steps(self) -> ReasoningSteps[None]:
        if not self._is_closed:
            self.reader.record()
            yield from self.reader.skip_space()
            if (yield from self.reader.accept(_OPEN)):
                self.is_reasoning = True
            if self.is_reasoning:
                yield from self._reasoning()
            elif text := self.reader.recorded():
                yield Content(text)
        while not self.reader.is_over:
            if text := (yield from self.reader.take_all()):
                yield Content(text)

    def _reasoning(self) -> ReasoningSteps[None]:
        self.reader.recorded()
        yield from self.reader.skip_space()
        space = ""
        while True:
            piece, marker = yield from self.reader.take(_CLOSES)
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
        yield from self.reader.skip_space()


class DeepSeekR1Parser(ThinkingParser):
    """DeepSeek R1 and QwQ: the model always reasons, whoever writes `<think>`."""

    begins_by_itself = True
