"""Reasoning parser `sample`: reasoning stands between `<sample>` and `</sample>`."""

from hookline import hookimpl
from hookline_server.reply_parsing.parts import Content, Reasoning
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import (
    ReasoningSteps,
    SteppedReasoningParser,
)

BEGIN, END = "<sample>", "</sample>"


class SampleParser(SteppedReasoningParser):
    """Reads the whole reply as one text, however it is cut into pieces.

    Attributes:
        needs_special_tokens: Whether the text must have special tokens.
        ends: Texts that end the reasoning.
    """

    needs_special_tokens = False
    ends = (END,)

    def steps(self) -> ReasoningSteps[None]:
        """Yields the parts of the reply; runs on the server's event loop."""
        # The chat template may have begun the reasoning.
        self.is_reasoning = self.context.prompt_end.rstrip().endswith(BEGIN)
        while not self.reader.is_over:
            marker = Markers(END if self.is_reasoning else BEGIN)
            text, found = yield from self.reader.read_until(marker)
            if text:
                yield Reasoning(text) if self.is_reasoning else Content(text)
            if found is not None:
                self.is_reasoning = not self.is_reasoning


@hookimpl
def create_reasoning_parser(context: ReasoningParserContext) -> SampleParser:
    """Called for each reply."""
    return SampleParser(context)
