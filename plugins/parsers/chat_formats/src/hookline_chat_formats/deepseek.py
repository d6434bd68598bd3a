"""Calls between control tokens: DeepSeek V3, R1 and V3.1."""

from hookline.reply_parsing.reader import Markers
from hookline.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
_CALLS_END = "<｜tool▁calls▁end｜>"
_CALL_BEGIN = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_SEPARATOR = "<｜tool▁sep｜>"
_BEGINS = Markers(_CALLS_BEGIN, _CALL_BEGIN)
_SEPARATORS = Markers(_SEPARATOR)
_LINE_ENDS = Markers("\n")
_FENCE = "```"


class DeepSeekV31Parser(SteppedToolParser):
    """`<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>` for each call."""

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_BEGINS))) is not None:
            if marker == _CALLS_BEGIN:
                yield from self.reader.skip_space()
                yield from self.reader.accept(_CALL_BEGIN)
            if (yield from self._call()):
                yield from self._end()
            else:
                yield self.not_a_call(marker)

    def _call(self) -> ToolSteps[bool]:
        head = yield from self.reader.before(_SEPARATORS)
        if head is None:
            return False
        yield from self.reader.accept(_SEPARATOR)
        name = yield from self._name(head)
        yield from self.reader.skip_space()
        if not name.strip() or (yield from self.reader.peek()) != "{":
            return False
        yield self.begin_call(name.strip())
        yield from self.json_arguments()
        return True

    def _name(self, head: str) -> ToolSteps[str]:
        """Returns the function's name, given what precedes the separator."""
        yield from ()
        return head

    def _end(self) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        yield from self.reader.accept(_FENCE)
        yield from self.reader.skip_space()
        yield from self.reader.accept(_CALL_END)
        yield from self.reader.skip_space()
        yield from self.reader.accept(_CALLS_END)


class DeepSeekV3Parser(DeepSeekV31Parser):
    """The same with a type before the separator; name and arguments are behind it.

    The arguments are in a block of Markdown.
    """

    def _name(self, head: str) -> ToolSteps[str]:  # noqa: ARG002 - always `function`
        name = yield from self.reader.before(_LINE_ENDS)
        yield from self.reader.skip_space()
        yield from self.reader.accept(f"{_FENCE}json")
        return name or ""
