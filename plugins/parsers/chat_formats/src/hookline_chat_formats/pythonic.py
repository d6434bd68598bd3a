"""Calls as Python writes them: Llama 3.2 and 4 and others, each in its own tags."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from hookline_chat_formats.parameter_calls import is_control
from hookline_chat_formats.python_literal import PythonLiteral
from hookline_server.reply_parsing.parts import CallArguments, Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_KEY = re.compile(r"[A-Za-z_]\w*")
_PARENTHESIS = Markers("(")
_BEGINS_LITERAL = frozenset("'\"-[{0123456789")
_AFTER_KEY = Markers("=", ")", ",", "(")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonicTags:
    """The delimiters of the calls.

    Attributes:
        opens: Tags before them.
        closes: Tags after them, which may be missing.
        is_bare: Whether they need no tag at the start of a reply, but the name of one
            of the request's functions.
        has_brackets: Whether they are a list; otherwise each has a line.
    """

    opens: tuple[str, ...] = ("<|python_start|>", "<|python_tag|>")
    closes: tuple[str, ...] = ("<|python_end|>",)
    is_bare: bool = True
    has_brackets: bool = True


_LLAMA = PythonicTags()


class PythonicParser(SteppedToolParser):
    """`[f(a=1, b="x"), g()]`.

    Arguments are literals, or words that count as strings; without keywords they are
    those of the function's schema, in its order. A call that turns out to be something
    else ends there, and the rest is content. Without a tag calls must name functions of
    the request, and must not be in a block of code.
    """

    def __init__(self, context: ToolParserContext, tags: PythonicTags = _LLAMA) -> None:
        super().__init__(context)
        self._tags = tags
        bare = ("[", *self.reasoning_ends) if tags.is_bare else ()
        self._strays = tuple(each for each in tags.closes if not is_control(each))
        self._begins = Markers(*tags.opens, *bare, *self._strays)
        self.control_tokens = tuple(filter(is_control, (*tags.opens, *tags.closes)))

    def steps(self) -> ToolSteps[None]:
        if self._tags.is_bare:
            self.reader.record()
            yield from self._calls("")
        markers, strays = self._begins, self._strays
        while (marker := (yield from self.content_until(markers, strays))) is not None:
            if marker in self.reasoning_ends:
                yield self.begins_anew(marker)
                yield from self._calls("")
            elif marker == "[" and self.is_code:
                yield self.not_a_call(marker)
            else:
                yield from self._calls(marker)

    def _calls(self, marker: str) -> ToolSteps[None]:
        """Reads calls; anything else is content."""
        yield from self.reader.skip_space()
        is_list = marker == "[" or (yield from self.reader.accept("["))
        needs_known = marker in ("", "[")
        has_calls = False
        while True:
            yield from self.reader.skip_space()
            if has_calls and (yield from self._end(is_list=is_list)):
                return
            is_first_slip = not (has_calls or is_list) and self._tags.has_brackets
            if is_first_slip and not (yield from self.reader.is_word("(")):
                yield self.not_a_call(marker)
                return
            if not (yield from self._call(needs_known=needs_known or is_first_slip)):
                yield self.not_a_call("" if has_calls else marker)
                return
            if is_first_slip or (marker == "[" and not has_calls):
                yield Repair("markup")
            has_calls = True
            self.reader.record()
            yield from self.reader.skip_space()
            yield from self.reader.accept(",")

    def _end(self, *, is_list: bool) -> ToolSteps[bool]:
        """Reads the end of the calls; returns whether it was there."""
        is_end = is_list and (yield from self.reader.accept("]"))
        for close in self._tags.closes:
            yield from self.reader.skip_space()
            is_end = (yield from self.reader.accept(close)) or is_end
        return is_end or not (yield from self.reader.peek())

    def _call(self, *, needs_known: bool) -> ToolSteps[bool]:
        """Reads a call; returns whether it began."""
        name = yield from self.reader.before(_PARENTHESIS)
        if name is None or not _NAME.fullmatch(name := name.strip()):
            return False
        if needs_known and name not in self.tools:
            return False
        yield from self.reader.accept("(")
        positions = self._positions(name)
        key = yield from self._key(positions)
        if key is None and not self.reader.is_cut:
            return False
        yield self.begin_call(name)
        count = 0
        while key:
            start = ", " if count else "{"
            yield CallArguments(f"{start}{json.dumps(key)}: ")
            count += 1
            if not (yield from PythonLiteral(self.reader).steps()):
                break
            yield from self.reader.skip_space()
            yield from self.reader.accept(",")
            self.reader.record()
            key = yield from self._key(positions)
        if not self.reader.is_over:
            yield CallArguments("}" if count else "{}")
        if key is None:
            yield self.not_a_call("")
        return True

    def _positions(self, name: str) -> Iterator[str]:
        """Yields the names of a function's arguments in their order."""
        properties = self.tools.get(name, {}).get("properties")
        return iter(properties if isinstance(properties, Mapping) else ())

    def _key(self, positions: Iterator[str]) -> ToolSteps[str | None]:
        """Reads a keyword and `=`, or `)`.

        Args:
            positions: Names of arguments that have none.

        Returns:
            The keyword; empty at the end of the call, None if it is neither.
        """
        yield from self.reader.skip_space()
        if (yield from self.reader.accept(")")):
            return ""
        if (yield from self.reader.peek()) in _BEGINS_LITERAL:
            return next(positions, None)
        key = yield from self.reader.before(_AFTER_KEY)
        if key is None or not _KEY.fullmatch(key.strip()):
            return None
        yield from self.reader.skip_space()
        is_keyword = yield from self.reader.accept("=")
        return key.strip() if is_keyword else None


Lfm2Parser = partial(
    PythonicParser,
    tags=PythonicTags(
        opens=("<|tool_call_start|>",), closes=("<|tool_call_end|>",), is_bare=False
    ),
)
Olmo3Parser = partial(
    PythonicParser,
    tags=PythonicTags(
        opens=("<function_calls>",),
        closes=("</function_calls>",),
        is_bare=False,
        has_brackets=False,
    ),
)
