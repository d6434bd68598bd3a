"""Tool parser `sample`: finds calls of the form `CALL name {arguments}`."""

from hookline import hookimpl
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

CALL = Markers("CALL ")
SPACE = Markers(" ")


class SampleParser(SteppedToolParser):
    """Reads the whole reply as one text, however it is cut into pieces.

    Attributes:
        needs_special_tokens: Whether the text must have special tokens.
    """

    needs_special_tokens = False

    def steps(self) -> ToolSteps[None]:
        """Yields the parts of the reply; runs on the server's event loop."""
        while (marker := (yield from self.content_until(CALL))) is not None:
            name = yield from self.reader.before(SPACE)
            if name is None or name not in self.tools:
                yield self.not_a_call(marker)
                continue
            yield from self.reader.skip_space()
            yield self.begin_call(name)
            yield from self.json_arguments()


@hookimpl
def create_tool_parser(context: ToolParserContext) -> SampleParser:
    """Called for each reply."""
    return SampleParser(context)
