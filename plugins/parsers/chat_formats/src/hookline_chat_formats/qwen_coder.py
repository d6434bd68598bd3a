"""Calls as parameters in tags: Qwen3-Coder and others, each in its own tags."""

from collections.abc import Collection
from functools import partial

from hookline_chat_formats.dialects import Dialect, any_call
from hookline_chat_formats.parameter_calls import (
    QWEN,
    ParameterCall,
    ParameterTags,
    is_control,
)
from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    schema_of,
    triggered,
)
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext


class ParameterTagsParser(SteppedToolParser):
    """`<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`.

    Without the tag before it, a call must name one of the request's functions.
    """

    def __init__(self, context: ToolParserContext, tags: ParameterTags = QWEN) -> None:
        super().__init__(context)
        self._tags = tags
        self._begins = Markers(*tags.opens, *tags.begins, *tags.closes)
        self.control_tokens = tags.control_tokens

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
        markers, strays = self._begins, self._tags.closes
        while (marker := (yield from self.content_until(markers, strays))) is not None:
            if not (yield from self._call(marker)):
                yield self.not_a_call(marker)

    def _call(self, marker: str) -> ToolSteps[bool]:
        if marker in self._tags.begins:
            call = ParameterCall(self, self._tags)
            needs_known = not is_control(marker)
            return (yield from call.steps(is_open=True, needs_known=needs_known))
        for text in (*self._tags.opens, *self._tags.prefixes):
            yield from self.reader.skip_space()
            yield from self.reader.accept(text)
        tags = self._tags
        return (
            yield from any_call(self, Dialect.PARAMETERS, tags=tags, closes=tags.closes)
        )


QwenCoderParser = ParameterTagsParser
"""Qwen3-Coder, Qwen 3.5, MiMo and Step 3.5."""

SeedParser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<seed:tool_call>",),
        closes=("</seed:tool_call>",),
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
        opens=(
            *("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
            *("<｜DSML｜toolcalls>", "<｜DSML｜tool>"),  # slips
        ),
        function='<｜DSML｜invoke name="',
        function_end="</｜DSML｜invoke>",
        parameter='<｜DSML｜parameter name="',
        parameter_end="</｜DSML｜parameter>",
        name_end='"',
        closes=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
        has_lines=False,
    ),
)
DeepSeekV41Parser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<｜DSML｜ calls>",),
        function='<｜DSML｜ invoke name="',
        function_end="</｜DSML｜ invoke>",
        parameter='<｜DSML｜ parameter name="',
        parameter_end="</｜DSML｜ parameter>",
        name_end='"',
        closes=("</｜DSML｜ calls>",),
        has_lines=False,
    ),
)
DotsParser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=("<dots_function_call>",),
        function='<invoke name="',
        function_end="</invoke>",
        parameter='<parameter name="',
        name_end='">',
        closes=("</dots_function_call>",),
        has_lines=False,
    ),
)
MiniCpmParser = partial(
    ParameterTagsParser,
    tags=ParameterTags(
        opens=(),
        function='<function name="',
        parameter='<param name="',
        parameter_end="</param>",
        name_end='">',
        closes=(),
        has_lines=False,
        has_sections=True,
        squeezed=("<functionname=", "<paramname="),
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
