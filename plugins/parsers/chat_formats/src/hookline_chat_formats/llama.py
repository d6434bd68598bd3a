"""Calls as JSON objects: Llama 3.1 and later."""

from collections.abc import Collection

from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    of_format,
    schema_of,
    separated,
)
from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.parts import Content
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_TAG = "<|python_tag|>"
_TAGS = Markers(_TAG)
_NO_CALL = r"(\s*[^\s{][\s\S]*)?"
"""Text that does not begin as JSON."""


class LlamaJsonParser(SteppedToolParser):
    """`{"name": "f", "parameters": {"a": 1}}`; further ones follow `;` or `,`.

    At the start of the reply they need no tag, but the name of one of the request's
    functions: any other JSON is content.
    """

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
        while (marker := (yield from self.content_until(_TAGS))) is not None:
            yield from self._calls(marker)

    def _calls(self, marker: str) -> ToolSteps[None]:
        if not (yield from self._call(marker)):
            yield self.not_a_call(marker)
            return
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

    def _call(self, marker: str) -> ToolSteps[bool]:
        yield from self.reader.skip_space()
        if (yield from self.reader.peek()) != "{":
            return False
        names = None if marker else self.tools
        call = CallObject(self, names=names, needs_arguments=not marker)
        return (yield from call.steps())

    def _rest(self) -> ToolSteps[None]:
        """Yields what follows a call and is not one."""
        text = self.reader.recorded()
        if text.strip().strip(";,"):
            self.not_a_call("")
            yield Content(text)
