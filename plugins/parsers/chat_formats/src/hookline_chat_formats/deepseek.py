"""Calls between control tokens: DeepSeek V3, R1 and V3.1, and Kimi K2."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from hookline_chat_formats.strict_calls import (
    Format,
    between,
    json_schema,
    schema_of,
    separated,
    triggered,
)
from hookline_server.reply_parsing.parts import CallArguments
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_LINE_ENDS = Markers("\n")
_FENCE = "```"
_KIMI_ID = re.compile(r"(?:functions\.)?(?P<name>[\w.-]+):\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTokens:
    """The tokens of one family; lists of calls and each call begin and end with one."""

    calls_begin: str
    call_begin: str
    separator: str
    call_end: str
    calls_end: str


_DEEPSEEK = ControlTokens(
    calls_begin="<｜tool▁calls▁begin｜>",
    call_begin="<｜tool▁call▁begin｜>",
    separator="<｜tool▁sep｜>",
    call_end="<｜tool▁call▁end｜>",
    calls_end="<｜tool▁calls▁end｜>",
)
_KIMI = ControlTokens(
    calls_begin="<|tool_calls_section_begin|>",
    call_begin="<|tool_call_begin|>",
    separator="<|tool_call_argument_begin|>",
    call_end="<|tool_call_end|>",
    calls_end="<|tool_calls_section_end|>",
)


class DeepSeekV31Parser(SteppedToolParser):
    """`<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>` for each call."""

    tokens = _DEEPSEEK
    call_separator = ""

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._begins = Markers(self.tokens.calls_begin, self.tokens.call_begin)
        self._separators = Markers(self.tokens.separator)

    def structural_tag(self, strict: Collection[str]) -> Format | None:
        """See `StrictToolParser`."""
        tokens, calls = self.tokens, []
        for name in self.tools:
            before, after = self._around(name)
            content = json_schema(schema_of(self.tools, name, strict))
            calls.append(between(tokens.call_begin + before, content, after))
        listed = separated(calls, self.call_separator)
        section = between(tokens.calls_begin, listed, tokens.calls_end)
        return triggered(tokens.calls_begin, [section])

    def _around(self, name: str) -> tuple[str, str]:
        """Returns the texts before and after the arguments of a call."""
        return f"{name}{self.tokens.separator}", self.tokens.call_end

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(self._begins))) is not None:
            if marker == self.tokens.calls_begin:
                yield from self.reader.skip_space()
                yield from self.reader.accept(self.tokens.call_begin)
            if (yield from self._call()):
                yield from self._end()
            else:
                yield self.not_a_call(marker)

    def _call(self) -> ToolSteps[bool]:
        head = yield from self.reader.before(self._separators)
        if head is None:
            return False
        yield from self.reader.accept(self.tokens.separator)
        name, call_id = yield from self._name(head.strip())
        yield from self.reader.skip_space()
        is_empty = yield from self.reader.is_at(self.tokens.call_end)
        if not name or not (is_empty or (yield from self.reader.is_at("{"))):
            return False
        yield self.begin_call(name, call_id)
        if is_empty:
            yield CallArguments("{}")
        else:
            yield from self.json_arguments()
        return True

    def _name(self, head: str) -> ToolSteps[tuple[str, str | None]]:
        """Returns name and id of a call, given what precedes the separator."""
        yield from ()
        return head, None

    def _end(self) -> ToolSteps[None]:
        yield from self.reader.skip_space()
        yield from self.reader.accept(_FENCE)
        for token in (self.tokens.call_end, self.tokens.calls_end):
            yield from self.reader.skip_space()
            yield from self.reader.accept(token)


class DeepSeekV3Parser(DeepSeekV31Parser):
    """The same with a type before the separator; name and arguments follow it.

    The arguments are in a block of Markdown.
    """

    call_separator = "\n"

    def _around(self, name: str) -> tuple[str, str]:
        before = f"function{self.tokens.separator}{name}\n{_FENCE}json\n"
        return before, f"\n{_FENCE}{self.tokens.call_end}"

    def _name(self, head: str) -> ToolSteps[tuple[str, str | None]]:  # noqa: ARG002
        name = yield from self.reader.before(_LINE_ENDS)
        yield from self.reader.skip_space()
        yield from self.reader.accept(f"{_FENCE}json")
        return (name or "").strip(), None


class KimiParser(DeepSeekV31Parser):
    """The same in other tokens; before the separator is an id, `functions.f:0`."""

    tokens = _KIMI

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._past_calls = context.past_calls

    def call_id(self, name: str, index: int) -> str:
        """See `NamesCalls`; calls are numbered through the conversation."""
        return f"functions.{name}:{self._past_calls + index}"

    def structural_tag(self, strict: Collection[str]) -> None:
        """Its calls have numbers, which no tag's start can have."""

    def _name(self, head: str) -> ToolSteps[tuple[str, str | None]]:
        yield from ()
        known = _KIMI_ID.fullmatch(head)
        return ("", None) if known is None else (known["name"], head)
