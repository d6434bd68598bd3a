"""Calls as JSON objects: Llama 3.1 and later."""

from collections.abc import Collection

from hookline_chat_formats.parameter_calls import ParameterCall
from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    of_format,
    schema_of,
    separated,
)
from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.parts import Content, Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_TAG = "<|python_tag|>"
_FUNCTION = "<function="
_ENDS = ("<|eom_id|>", "<|eot_id|>")
_NO_CALL = r"(\s*[^\s{][\s\S]*)?"
"""Text that does not begin as JSON."""


class LlamaJsonParser(SteppedToolParser):
    """`{"name": "f", "parameters": {"a": 1}}`; further ones follow `;` or `,`.

    Without a tag before them they need the name of one of the request's functions, and
    must not be in a block of code: any other JSON is content. Some models write
    `<function=f>{"a": 1}</function>`.
    """

    control_tokens = (_TAG, *_ENDS)

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._markers = Markers(_TAG, _FUNCTION, "{", *self.reasoning_ends)

    def structural_tag(self, strict: Collection[str]) -> Format:
        """See `StrictToolParser`; a reply that begins as JSON must consist of calls."""
        calls = [
            between(
                f'{{"name": "{name}", "parameters": ',
                json_schema(schema_of(self.tools, name, strict)),
                "}",
            )
            for name in self.tools
        ]
        text: Format = {"type": "regex", "pattern": _NO_CALL}
        return of_format({"type": "or", "elements": [separated(calls, "; "), text]})

    def steps(self) -> ToolSteps[None]:
        self.reader.record()
        yield from self._calls("")
        while (marker := (yield from self.content_until(self._markers))) is not None:
            if marker in self.reasoning_ends:
                yield self.begins_anew(marker)
                yield from self._calls("")
            elif marker == _TAG:
                yield from self._calls(marker)
            elif marker == _FUNCTION:
                call = ParameterCall(self)
                if not (yield from call.steps(is_open=True, needs_known=True)):
                    yield self.not_a_call(marker)
            elif self.is_code or not (yield from self._call("", is_open=True)):
                yield self.not_a_call(marker)
            else:
                yield Repair("markup")
                yield from self._more_calls()

    def _calls(self, marker: str) -> ToolSteps[None]:
        if (yield from self._call(marker)):
            yield from self._more_calls()
        else:
            yield self.not_a_call(marker)

    def _more_calls(self) -> ToolSteps[None]:
        while True:
            yield from self.reader.skip_space()
            self.reader.record()
            if not (yield from self.reader.accept(";")):
                yield from self.reader.accept(",")
            yield from self.reader.skip_space()
            tag = _TAG if (yield from self.reader.accept(_TAG)) else ""
            if not (yield from self._call(tag)):
                yield from self._rest()
                return

    def _call(self, marker: str, *, is_open: bool = False) -> ToolSteps[bool]:
        """Reads a call, of which the first brace may have been read."""
        if not is_open:
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept("{")):
                return False
        names = None if marker else self.tools
        call = CallObject(self, names=names, needs_arguments=not marker)
        return (yield from call.steps(is_open=True))

    def _rest(self) -> ToolSteps[None]:
        """Yields what follows a call and is not one."""
        text = self.reader.recorded()
        if text.strip().strip(";,"):
            self.not_a_call("")
            yield Repair("cut") if self.reader.is_cut else Content(text)
