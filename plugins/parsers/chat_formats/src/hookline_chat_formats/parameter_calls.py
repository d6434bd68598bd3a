"""Calls as parameters in tags: Qwen3-Coder and others, each in its own tags."""

import re
from dataclasses import dataclass

from hookline_chat_formats.typed_values import ArgumentWriter
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_NAME = re.compile(r"[\w.:-]+")
_TAG_ENDS = Markers(">", "<")
_QUOTES = ("'", '"')
_NOT_IN_TEXTS = (":", "|", "｜", "longcat", "[TOOL")


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
        closes: Tags after a function's, which may be missing.
        has_lines: See `ArgumentWriter`.
        has_sections: See `ArgumentWriter`.
        squeezed: How models write the starts of both tags without a space; none if
            empty.
        style: What structural tags call the format of the parameters; None if nothing.
    """

    opens: tuple[str, ...] = ("<tool_call>",)
    prefixes: tuple[str, ...] = ()
    function: str = "<function="
    function_end: str = "</function>"
    parameter: str = "<parameter="
    parameter_end: str = "</parameter>"
    name_end: str = ">"
    closes: tuple[str, ...] = ("</tool_call>",)
    has_lines: bool = True
    has_sections: bool = False
    squeezed: tuple[str, ...] = ()
    style: str | None = None

    @property
    def begins(self) -> tuple[str, ...]:
        """How the tag of a function may begin, with and without quotes."""
        begin = self.function.rstrip('"')
        others = ("<function name=",) if begin == "<function=" else self.squeezed[:1]
        return (begin, *others)

    @property
    def parameter_begins(self) -> tuple[str, ...]:
        """How the tag of a parameter may begin."""
        begin = self.parameter.rstrip('"')
        others = ("<parameter name=",) if begin == "<parameter=" else self.squeezed[1:]
        return (begin, *others)

    @property
    def control_tokens(self) -> tuple[str, ...]:
        """Those that nobody else would write."""
        texts = (
            *self.opens,
            *self.prefixes,
            *self.closes,
            self.function_end,
            self.parameter_end,
        )
        return tuple(each for each in texts if is_control(each))

    @property
    def value_ends(self) -> dict[str, tuple[str, ...]]:
        """See `ArgumentWriter`: closing tags may be missing."""
        calls = (*self.opens, *self.begins)
        ends = {
            self.parameter_end: (
                *self.parameter_begins,
                self.function_end,
                *self.closes,
                *calls,
            ),
            self.function_end: (*self.closes, *calls),
        }
        ends |= dict.fromkeys(self.closes, (*self.closes, *self.opens))
        return ends | {f"\n{begin}": () for begin in self.parameter_begins}


def is_control(tag: str) -> bool:
    """Returns whether a tag is one that nobody would write in a text."""
    return tag[:1] in ("<", "[") and any(each in tag for each in _NOT_IN_TEXTS)


QWEN = ParameterTags(style="qwen_xml")


class ParameterCall:
    """`<function=f><parameter=a>1</parameter></function></tool_call>`.

    There may be line breaks between the tags. A parameter's tag may say that its value
    is text, `string="true"`, or JSON, `string="false"`.
    """

    def __init__(self, parser: SteppedToolParser, tags: ParameterTags = QWEN) -> None:
        """Reads nothing yet; the parser's reader is at the function's tag."""
        self._parser = parser
        self._reader = parser.reader
        self._tags = tags
        self._has_slips = False

    def is_next(self) -> Waits[bool]:
        """Returns whether the tag of a function comes next."""
        for begin in self._tags.begins:
            if (yield from self._reader.is_at(begin)):
                return True
        return False

    def steps(
        self, *, is_open: bool = False, needs_known: bool = False
    ) -> ToolSteps[bool]:
        """Yields the call; returns whether it was one.

        Args:
            is_open: Whether the start of the function's tag was read.
            needs_known: Whether it must name one of the request's functions.
        """
        if not is_open and not (yield from self._accepted(*self._tags.begins)):
            return False
        name, _ = yield from self._named()
        if not _NAME.fullmatch(name):
            return False
        if needs_known and self._parser.known(name) is None:
            return False
        yield self._parser.begin_call(name)
        yield from self._arguments(self._parser.known(name) or name)
        for close in self._tags.closes:
            yield from self._reader.skip_space()
            yield from self._reader.accept(close)
        if self._has_slips:
            yield Repair("markup")
        return True

    def _named(self) -> Waits[tuple[str, str]]:
        """Reads the rest of a tag; returns the name in it, and what follows that."""
        head = yield from self._reader.before(_TAG_ENDS)
        if head is None or not (yield from self._reader.accept(">")):
            return "", ""
        head, attributes = head.strip(), ""
        if not head.startswith(_QUOTES):
            if self._tags.name_end.startswith('"'):
                self._has_slips = True
                name, _, attributes = head.partition(" ")
                return name, attributes
            return head, ""
        name, _, attributes = head[1:].partition(head[0])
        self._has_slips = self._has_slips or self._tags.name_end == ">"
        return name.strip(), attributes

    def _accepted(self, *texts: str) -> Waits[bool]:
        for text in texts:
            if (yield from self._reader.accept(text)):
                return True
        return False

    def _arguments(self, name: str) -> ToolSteps[None]:
        tags, schema = self._tags, self._parser.tools.get(name, {})
        yield from self._reader.skip_space()
        if (yield from self._reader.is_at("{")):
            yield from self._parser.json_arguments()
            yield from self._reader.skip_space()
            yield from self._reader.accept(tags.function_end)
            yield Repair("dialect")
            return
        ends = tags.value_ends
        writer = ArgumentWriter(
            self._parser,
            schema,
            has_lines=tags.has_lines,
            has_sections=tags.has_sections,
            ends=ends,
        )
        end: str | None = tags.parameter_end
        while end == tags.parameter_end or (end or "").startswith("\n"):
            yield from self._reader.skip_space()
            if end == tags.parameter_end and not (
                yield from self._accepted(*tags.parameter_begins)
            ):
                break
            self._reader.record()
            key, attributes = yield from self._named()
            if not key:
                yield self._parser.not_a_call("")
                return
            is_text = 'string="true"' in attributes if "string=" in attributes else None
            end = yield from writer.value(key, is_text=is_text)
            self._has_slips = self._has_slips or end not in (None, tags.parameter_end)
        if end is not None and not self._reader.is_over:
            yield writer.closing_brace()
            yield from self._reader.accept(tags.function_end)
