"""Calls as JSON after a tag: Hermes and others, each with its own tags."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from hookline_chat_formats.call_list import listed_calls
from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    schema_of,
    triggered,
)
from hookline_server.reply_parsing.call_object import CallObject
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTags:
    """The delimiters of the JSON.

    Attributes:
        opens: Tags before it.
        closes: Tags after it, which may be missing.
        is_bare: Whether JSON needs no tag at the start of a reply, but the name of one
            of the request's functions, as any other does then.
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
        self._begins = Markers(*tags.opens)
        self._names = self.tools if tags.is_bare else None

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
        if self._tags.is_bare:
            self.reader.record()
            yield from self._after("")
        while (marker := (yield from self.content_until(self._begins))) is not None:
            yield from self._after(marker)

    def _after(self, marker: str) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        if not (yield from self._calls()):
            yield self.not_a_call(marker)
            return
        if not (yield from self._more_calls()):
            yield self.not_a_call("")
            return
        for close in self._tags.closes:
            yield from self.reader.skip_space()
            yield from self.reader.accept(close)

    def _more_calls(self) -> ToolSteps[bool]:
        """Reads further objects after one; returns False at one that is not a call."""
        while True:
            self.reader.record()
            yield from self.reader.skip_space()
            if (yield from self.reader.peek()) != "{":
                self.reader.recorded()
                return True
            if not (yield from self._calls()):
                return False

    def _calls(self) -> ToolSteps[bool]:
        if (yield from self.reader.peek()) == "[":
            return (yield from listed_calls(self, names=self._names))
        is_strict = self._names is not None
        call = CallObject(self, names=self._names, needs_arguments=is_strict)
        return (yield from call.steps())


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
