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
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_FENCE = "```"
_NAME = re.compile(r"[\w.:/-]+")
_KIMI_ID = re.compile(r"(?:functions\.)?(?P<name>[\w./-]+?)(?P<number>:\d+)?")
_TYPE = "function"
"""What models before V3.1 write where later ones write the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTokens:
    """The tokens of one family; lists of calls and each call begin and end with one.

    Attributes:
        others: What models write instead of `calls_begin`.
    """

    calls_begin: str
    call_begin: str
    separator: str
    call_end: str
    calls_end: str
    others: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them."""
        sections = (self.calls_begin, *self.others, self.calls_end)
        return (*sections, self.call_begin, self.separator, self.call_end)


_DEEPSEEK = ControlTokens(
    calls_begin="<｜tool▁calls▁begin｜>",
    call_begin="<｜tool▁call▁begin｜>",
    separator="<｜tool▁sep｜>",
    call_end="<｜tool▁call▁end｜>",
    calls_end="<｜tool▁calls▁end｜>",
    others=("<｜tool▁calls｜>", "<｜tool_calls_begin｜>", "<｜tool calls begin｜>"),
)
_KIMI = ControlTokens(
    calls_begin="<|tool_calls_section_begin|>",
    call_begin="<|tool_call_begin|>",
    separator="<|tool_call_argument_begin|>",
    call_end="<|tool_call_end|>",
    calls_end="<|tool_calls_section_end|>",
    others=("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
)


class DeepSeekV31Parser(SteppedToolParser):
    """`<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>` for each call.

    Models also write calls of earlier versions, forget the separator, or write text
    between a section's start and its calls, which is content.
    """

    tokens = _DEEPSEEK
    call_separator = ""
    has_type = False

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        tokens = self.tokens
        self.control_tokens = tokens.texts
        self._sections = (tokens.calls_begin, *tokens.others)
        self._begins = Markers(*self._sections, tokens.call_begin, *self.frames)
        self._after_head = Markers(*tokens.texts, "{")
        self._after_name = Markers(*tokens.texts, "{", "\n", _FENCE)

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
            is_begun = marker == self.tokens.call_begin
            if not is_begun:
                yield from self.reader.skip_space()
                is_begun = yield from self.reader.accept(self.tokens.call_begin)
            if (yield from self._call(needs_known=not is_begun)):
                yield from self._end()
            else:
                yield self.not_a_call(marker)

    def _call(self, *, needs_known: bool) -> ToolSteps[bool]:
        head = yield from self.reader.before(self._after_head)
        if head is None:
            return False
        has_separator = yield from self.reader.accept(self.tokens.separator)
        name, has_type = head.strip(), False
        if has_separator and not (yield from self._is_at_arguments()):
            name, has_type = yield from self._name_behind(name)
        yield from self.reader.skip_space()
        is_fenced = yield from self.reader.accept(_FENCE)
        if is_fenced:
            yield from self.reader.accept("json")
            yield from self.reader.skip_space()
        name, call_id = self._named(name)
        is_empty = yield from self.reader.is_at(self.tokens.call_end)
        if not _NAME.fullmatch(name) or (needs_known and not self.known(name)):
            return False
        if not is_empty and not (yield from self.reader.is_at("{")):
            if not self.reader.is_cut:
                return False
            self.reader.drop_rest()
        yield self.begin_call(name, call_id)
        if not is_empty:
            yield from self.json_arguments()
        if not has_separator or needs_known:
            yield Repair("markup")
        elif (has_type or is_fenced) and not self.has_type:
            yield Repair("dialect")
        return True

    def _name_behind(self, head: str) -> ToolSteps[tuple[str, bool]]:
        """Returns the name, and whether a type, `head`, was before it.

        The name is empty if the text was cut in it.
        """
        line = yield from self.reader.before(self._after_name)
        if line is not None or not self.reader.is_cut:
            return (line or "").strip() or head, True
        return ("" if self.has_type or head == _TYPE else head), False

    def _is_at_arguments(self) -> ToolSteps[bool]:
        """Returns whether arguments come next, so that the name was before them."""
        yield from self.reader.skip_space()
        for text in ("{", _FENCE, self.tokens.call_end):
            if (yield from self.reader.is_at(text)):
                return True
        return False

    def _named(self, head: str) -> tuple[str, str | None]:
        """Returns name and id of a call, given what the model wrote for its name."""
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
    has_type = True

    def _around(self, name: str) -> tuple[str, str]:
        before = f"{_TYPE}{self.tokens.separator}{name}\n{_FENCE}json\n"
        return before, f"\n{_FENCE}{self.tokens.call_end}"


class KimiParser(DeepSeekV31Parser):
    """The same in other tokens; before the separator is an id, `functions.f:0`.

    Where the model forgets its number, the call gets one.
    """

    tokens = _KIMI

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._count = 0
        self._past_calls = context.past_calls

    def call_id(self, name: str, index: int) -> str:
        """See `NamesCalls`; calls are numbered through the conversation."""
        return f"functions.{name}:{self._past_calls + index}"

    def structural_tag(self, strict: Collection[str]) -> None:
        """Its calls have numbers, which no tag's start can have."""

    def _named(self, head: str) -> tuple[str, str | None]:
        found = _KIMI_ID.fullmatch(head)
        if found is None:
            return "", None
        name = found["name"]
        made = self.call_id(name, self._count)
        self._count += 1
        return name, head if found["number"] else made
