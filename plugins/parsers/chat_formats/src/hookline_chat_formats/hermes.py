"""Calls as JSON after a tag: Hermes and others, each with its own tags."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from hookline_chat_formats.dialects import Dialect, any_call
from hookline_chat_formats.json_calls import json_calls
from hookline_chat_formats.parameter_calls import ParameterCall, is_control
from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    schema_of,
    triggered,
)
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_FUNCTION = "<function="
_FENCE = "```json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTags:
    """The delimiters of the JSON.

    Attributes:
        opens: Tags before it.
        closes: Tags after it, which may be missing.
        is_bare: Whether models are trained to write JSON without a tag, at the start of
            a reply; then it needs the name of one of the request's functions, and so
            does any other.
        is_object: Whether a tag is always followed by one object, and a closing tag.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()
    is_bare: bool = False
    is_object: bool = False


_HERMES = CallTags(opens=("<tool_call>",), closes=("</tool_call>",), is_object=True)


class TaggedJsonParser(SteppedToolParser):
    """`<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>` for each call."""

    def __init__(self, context: ToolParserContext, tags: CallTags = _HERMES) -> None:
        super().__init__(context)
        self._tags = tags
        slips = (_FUNCTION,) if "<tool_call>" in tags.opens else ()
        self._strays = tuple(each for each in tags.closes if each.startswith("<"))
        self._begins = Markers(
            *tags.opens, *self._strays, *slips, *self.reasoning_ends, *self.frames
        )
        self._names = self.tools if tags.is_bare else None
        self.control_tokens = tuple(
            each for each in (*tags.opens, *tags.closes) if is_control(each)
        )

    def structural_tag(self, strict: Collection[str]) -> Format | None:
        """See `StrictToolParser`; models may write a line break after the tag."""
        if not self._tags.is_object:
            return None
        (opens,), (closes,) = self._tags.opens, self._tags.closes
        return triggered(
            opens,
            (
                between(
                    f'{opens}{space}{{"name": "{name}", "arguments": ',
                    json_schema(schema_of(self.tools, name, strict)),
                    f"}}{space}{closes}",
                )
                for name in self.tools
                for space in ("\n", "")
            ),
        )

    def steps(self) -> ToolSteps[None]:
        self.reader.record()
        yield from self._bare()
        markers, strays = self._begins, self._strays
        while (marker := (yield from self.content_until(markers, strays))) is not None:
            if marker in self.reasoning_ends:
                yield self.begins_anew(marker)
                yield from self._bare()
            elif marker == _FUNCTION:
                call = ParameterCall(self)
                if (yield from call.steps(is_open=True, needs_known=True)):
                    yield Repair("dialect")
                else:
                    yield self.not_a_call(marker)
            else:
                yield from self._after(marker)

    def _after(self, marker: str) -> ToolSteps[None]:
        closes = self._tags.closes
        if not (yield from any_call(self, Dialect.JSON, self._names, closes=closes)):
            yield self.not_a_call(marker)

    def _bare(self) -> ToolSteps[None]:
        """Reads calls at the start of a reply, where the tag may be missing."""
        yield from self.reader.skip_space()
        for tag in self._tags.opens:
            if (yield from self.reader.is_at(tag)):
                yield self.not_a_call("")
                return
        fence = yield from self.reader.accept(_FENCE)
        yield from self.reader.skip_space()
        if not (yield from json_calls(self, names=self.tools)):
            yield self.not_a_call("")
            return
        if fence:
            yield from self.reader.skip_space()
            yield from self.reader.accept("```")
        if not self._tags.is_bare:
            yield Repair("markup")


HermesParser = TaggedJsonParser

GraniteParser = partial(
    TaggedJsonParser, tags=CallTags(opens=("<|tool_call|>", "<tool_call>"))
)
Granite20bParser = partial(TaggedJsonParser, tags=CallTags(opens=("<function_call>",)))
InternLmParser = partial(
    TaggedJsonParser,
    tags=CallTags(opens=("<|action_start|><|plugin|>",), closes=("<|action_end|>",)),
)
LongcatParser = partial(
    TaggedJsonParser,
    tags=CallTags(
        opens=("<longcat_tool_call>",),
        closes=("</longcat_tool_call>",),
        is_object=True,
    ),
)
Phi4MiniParser = partial(
    TaggedJsonParser,
    tags=CallTags(opens=("functools", "<|tool_call|>"), closes=("<|/tool_call|>",)),
)
ToolCallsParser = partial(
    TaggedJsonParser, tags=CallTags(opens=("<tool_calls>",), closes=("</tool_calls>",))
)
"""Hunyuan A13B, Jamba and MiniMax M1."""

XLamParser = partial(
    TaggedJsonParser,
    tags=CallTags(
        opens=("<tool_call>", "[TOOL_CALLS]", "```json"),
        closes=("</tool_call>", "```"),
        is_bare=True,
    ),
)
