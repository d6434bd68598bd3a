"""Calls as parameters in tags: Qwen3-Coder and others, each in its own tags."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    schema_of,
    triggered,
)
from hookline_chat_formats.typed_values import ArgumentWriter
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_NAME = re.compile(r"[\w.:-]+")
_TAG_ENDS = Markers(">")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterTags:
    """The tags of one format.

    Attributes:
        opens: Tags before a function's, one of which may announce a call.
        prefixes: What may be between these and the function's tag.
        function: Start of the tag with a function's name.
        function_end: Closing tag of a function.
        parameter: Start of the tag with a parameter's name.
        parameter_end: Closing tag of a parameter.
        name_end: What follows a name in its tag.
        has_attributes: Whether a parameter's tag goes on after its name; there
            `string="true"` says that the value is text, and `"false"` that it is JSON.
        closes: Tags after a function's, which may be missing.
        unclosed: What ends a value without its closing tag: the next parameter, and the
            end of the call.
        has_lines: See `ArgumentWriter`.
        style: What structural tags call the format of the parameters; None if nothing.
    """

    opens: tuple[str, ...] = ("<tool_call>",)
    prefixes: tuple[str, ...] = ()
    function: str = "<function="
    function_end: str = "</function>"
    parameter: str = "<parameter="
    parameter_end: str = "</parameter>"
    name_end: str = ">"
    has_attributes: bool = False
    closes: tuple[str, ...] = ("</tool_call>",)
    unclosed: tuple[str, ...] = ()
    has_lines: bool = True
    style: str | None = None


_QWEN = ParameterTags(
    unclosed=("\n<parameter=", "\n</function>\n</tool_call>"), style="qwen_xml"
)


class ParameterTagsParser(SteppedToolParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`.

    There may be line breaks between the tags.
    """

    def __init__(self, context: ToolParserContext, tags: ParameterTags = _QWEN) -> None:
        super().__init__(context)
        self._tags = tags
        self._begins = Markers(*tags.opens, tags.function)
        self._name_ends = Markers(tags.name_end)
        self._value_ends = Markers(tags.parameter_end, *tags.unclosed)
        self._followers = (tags.parameter, tags.function_end, *tags.closes)

    def structural_tag(self, strict: Collection[str]) -> Format | None:
        """See `StrictToolParser`."""
        tags = self._tags
        if tags.style is None:
            return None
        (opens,), (closes,) = tags.opens, tags.closes
        return triggered(
            opens,
            (
                between(
                    f"{opens}\n{tags.function}{name}{tags.name_end}\n",
                    json_schema(schema_of(self.tools, name, strict), tags.style),
                    f"\n{tags.function_end}\n{closes}",
                )
                for name in self.tools
            ),
        )

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(self._begins))) is not None:
            name = yield from self._name(marker)
            if name is None:
                yield self.not_a_call(marker)
                continue
            yield self.begin_call(name)
            yield from self._arguments(name)
            yield from self._accepted(self._tags.closes)

    def _name(self, marker: str) -> ToolSteps[str | None]:
        if marker != self._tags.function:
            yield from self._accepted((*self._tags.opens, *self._tags.prefixes))
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept(self._tags.function)):
                return None
        name = yield from self.reader.before(self._name_ends)
        if name is None or not _NAME.fullmatch(name.strip()):
            return None
        yield from self.reader.accept(self._tags.name_end)
        if self._tags.has_attributes:
            yield from self.reader.accept(">")
        return name.strip()

    def _accepted(self, texts: tuple[str, ...]) -> ToolSteps[None]:
        """Reads these texts, as far as they are there, and white space before them."""
        for text in texts:
            yield from self.reader.skip_space()
            yield from self.reader.accept(text)

    def _arguments(self, name: str) -> ToolSteps[None]:
        tags, schema = self._tags, self.tools.get(name, {})
        writer = ArgumentWriter(
            self, schema, has_lines=tags.has_lines, followers=self._followers
        )
        is_open = False
        while True:
            yield from self.reader.skip_space()
            if not (is_open or (yield from self.reader.accept(tags.parameter))):
                break
            end = yield from self._argument(writer)
            if end is None:
                return
            is_open = end in tags.unclosed[:1]
            if end in tags.unclosed[1:]:
                yield writer.closing_brace()
                return
        if not self.reader.is_over:
            yield writer.closing_brace()
            yield from self.reader.accept(tags.function_end)

    def _argument(self, writer: ArgumentWriter) -> ToolSteps[str | None]:
        """Reads a parameter after the start of its tag; returns what ended it."""
        key = yield from self.reader.before(self._name_ends)
        if key is None:
            return None
        yield from self.reader.accept(self._tags.name_end)
        is_text: bool | None = None
        if self._tags.has_attributes:
            attributes = yield from self.reader.before(_TAG_ENDS)
            if attributes is None:
                return None
            yield from self.reader.accept(">")
            if "string=" in attributes:
                is_text = 'string="true"' in attributes
        ends = self._value_ends
        return (yield from writer.value(key.strip(), ends, is_text=is_text))


QwenCoderParser = ParameterTagsParser
"""Qwen3-Coder, Qwen 3.5, MiMo and Step 3.5."""

SeedParser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<seed:tool_call>",),
        closes=("</seed:tool_call>",),
        unclosed=("\n<parameter=", "\n</function>\n</seed:tool_call>"),
    ),
)
MiniMaxM2Parser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<minimax:tool_call>",),
        function='<invoke name="',
        function_end="</invoke>",
        parameter='<parameter name="',
        name_end='">',
        closes=("</minimax:tool_call>",),
        has_lines=False,
    ),
)
DeepSeekV32Parser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
        function='<｜DSML｜invoke name="',
        function_end="</｜DSML｜invoke>",
        parameter='<｜DSML｜parameter name="',
        parameter_end="</｜DSML｜parameter>",
        name_end='"',
        has_attributes=True,
        closes=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
        has_lines=False,
    ),
)
Step3Parser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>"),
        prefixes=("function", "<｜tool_sep｜>"),
        function='<steptml:invoke name="',
        function_end="</steptml:invoke>",
        parameter='<steptml:parameter name="',
        parameter_end="</steptml:parameter>",
        name_end='">',
        closes=("<｜tool_call_end｜>", "<｜tool_calls_end｜>"),
        has_lines=False,
    ),
)
