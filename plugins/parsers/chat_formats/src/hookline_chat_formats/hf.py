"""Parsers for any model whose tokenizer has a response template."""

import json
from collections.abc import Generator, Iterator, Mapping

from hookline.structured_outputs import ReasoningSpan
from hookline_chat_formats.response_template import (
    FIELD_OF_CALLS,
    FIELD_OF_CONTENT,
    FIELDS_OF_REASONING,
    Anchor,
    Field,
    ResponseTemplate,
    template_of,
)
from hookline_chat_formats.typed_values import as_json
from hookline_chat_formats.value_types import member_schema, takes
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Reasoning,
    ReasoningPart,
    Repair,
    ToolPart,
)
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.stepped_parser import is_prose, without_space
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_MOST_TRIES = 8
"""How often a call may go on behind what seems to close it."""


class _Unread:
    """Text that has arrived and has not been read.

    Attributes:
        has_ended: Whether no text follows.
        is_cut: Whether that is because of its length.
    """

    def __init__(self) -> None:
        self._text = ""
        self._sure = 0  # up to here there is certainly no anchor
        self.has_ended = self.is_cut = False

    def add(self, text: str) -> None:
        self._text += text

    def until(self, *anchors: Anchor | None) -> tuple[str, str, Anchor | None]:
        """Reads the text before the first of these anchors, as far as that is certain.

        Returns:
            The text, and the anchor's text and the anchor if it was reached.
        """
        first: tuple[int, int] | None = None
        reached: Anchor | None = None
        hold = len(self._text)
        for anchor in anchors:
            if anchor is None:
                continue
            found, sure = anchor.find(self._text, 0, is_last=self.has_ended)
            if found is None:
                hold = min(hold, sure)
            elif first is None or found[0] < first[0]:
                first, reached = found, anchor
        if first is None or first[0] >= hold:
            return self.read(hold), "", None
        text = self.read(first[0])
        return text, self.read(first[1] - first[0]), reached

    def place_of(self, anchor: Anchor | None, start: int) -> tuple[int, int] | None:
        """Returns where the next such anchor is from a position on.

        None means that it has not arrived.
        """
        if anchor is None:
            return None
        start = max(start, self._sure)
        found, self._sure = anchor.find(self._text, start, is_last=self.has_ended)
        return found

    def peek(self, size: int | None) -> str:
        """Returns the next characters, or all."""
        return self._text[:size]

    def read(self, size: int | None) -> str:
        """Reads the next characters, or all."""
        taken = self._text[:size]
        self._text = self._text[len(taken) :]
        self._sure = 0
        return taken


class TemplateToolParser:
    """Finds the calls; the template's marks of contents are left out."""

    needs_special_tokens = True

    def __init__(self, context: ToolParserContext) -> None:
        """Reads the template.

        Raises:
            ValueError: It is not there, or tells nothing of calls.
        """
        self._tools = context.tools
        self._unread = _Unread()
        self._calls: Field | None = None
        self._marks: tuple[Anchor | None, ...] = ()
        if (template := _template(context.tokenizer)) is not None:
            self._calls = template.field(FIELD_OF_CALLS)
            self._marks = _marks(template)
        self._space = ""
        self._opened: str | None = None  # what opened the field that is being read
        self._too_early = 0
        self._tries = 0
        self._follows_call = False

    def push(self, text: str) -> list[ToolPart]:
        self._unread.add(text)
        return list(self._parts())

    def finish(self) -> list[ToolPart]:
        self._unread.has_ended = True
        return list(self._parts())

    def cut(self) -> list[ToolPart]:
        """See `CutParser`: what was held back may be a mark's start, or a call's."""
        if self._opened is None:
            return list(self._content("", is_last=True))
        self._unread.is_cut = True
        return self.finish()

    def _parts(self) -> Iterator[ToolPart]:
        if self._calls is None:
            yield Content(self._unread.read(None))
            return
        while self._opened is None or (yield from self._field(self._calls)):
            text, mark, anchor = self._unread.until(self._calls.opens, *self._marks)
            yield from self._content(text, is_last=not mark and self._unread.has_ended)
            if anchor is self._calls.opens:
                self._opened, self._too_early, self._tries = mark, 0, 0
            elif anchor is None:
                return

    def _content(self, text: str, *, is_last: bool) -> Iterator[ToolPart]:
        """Yields content without the white space around calls."""
        text, self._space = self._space + text, ""
        if self._follows_call:
            text = text.lstrip()
            self._follows_call = not text
        sure = len(text) if is_last else without_space(text)
        self._space = text[sure:]
        if sure:
            yield Content(text[:sure])

    def _field(self, field: Field) -> Generator[ToolPart, None, bool]:
        """Reads the calls of a field; returns whether it has ended."""
        opened = self._opened or ""
        while True:
            place = self._unread.place_of(field.closes, self._too_early)
            if place is None and not self._unread.has_ended:
                return False
            inner, end = place or (None, None)
            calls = field.calls(opened + self._unread.peek(inner))
            if calls or end is None or self._tries == _MOST_TRIES:
                break
            self._tries, self._too_early = self._tries + 1, end
        self._opened = None
        read = self._unread.read(end)
        if not calls and self._unread.is_cut and not is_prose(read):
            yield Repair("cut")
        elif not calls:
            yield Content(f"{self._space}{opened}{read}")
            self._follows_call = False
        self._space = ""
        for name, arguments in calls:
            yield CallBegun(name)
            yield CallArguments(self._arguments(name, arguments))
            self._follows_call = True
        return True

    def _arguments(self, name: str, arguments: object) -> str:
        """Returns a call's arguments as JSON of the schema's types."""
        if isinstance(arguments, str):
            return arguments
        if not isinstance(arguments, Mapping):
            return "{}"
        schema = self._tools.get(name, {})
        pairs = (
            f"{json.dumps(key, ensure_ascii=False)}: {self._value(schema, key, value)}"
            for key, value in arguments.items()
        )
        return f"{{{', '.join(pairs)}}}"

    def _value(self, root: Mapping[str, object], key: str, value: object) -> str:
        schema = member_schema(root, key, root)
        if isinstance(value, str) and not takes(schema, value, root):
            return as_json(value, schema, root)
        return json.dumps(value, ensure_ascii=False)


class TemplateReasoningParser:
    """Finds the reasoning; the template's marks of contents are left out.

    Attributes:
        is_reasoning: Whether the text so far ends within reasoning.
    """

    needs_special_tokens = True

    def __init__(self, context: ReasoningParserContext) -> None:
        """Reads the template, and what the prompt already has of the reply.

        Raises:
            ValueError: It is not there, or tells nothing of reasoning.
        """
        self._unread = _Unread()
        self._thinking: Field | None = None
        self._marks: tuple[Anchor | None, ...] = ()
        self._space = ""
        self._drops_space = self._has_thought = self.is_reasoning = False
        self._is_structured = context.is_structured
        self._has_content = False
        if (template := _template(context.tokenizer)) is not None:
            self._thinking = template.field(*FIELDS_OF_REASONING)
            self._marks = _marks(template)
            self.push(template.begun(context.prompt_end))
            self._unread, self._space = _Unread(), ""

    @property
    def ends(self) -> tuple[str, ...]:
        """Texts that end reasoning."""
        closes = None if self._thinking is None else self._thinking.closes
        return () if closes is None else closes.texts

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """Where a structured output begins; see `ReasoningBeforeGrammar`."""
        opens = None if self._thinking is None else self._thinking.opens
        if opens is None or not self.ends or self._has_thought:
            return None
        if self.is_reasoning:
            return ReasoningSpan(end=self.ends[0])
        if not opens.texts:
            return None
        return ReasoningSpan(begin=opens.texts[0], is_optional=True, end=self.ends[0])

    def push(self, text: str) -> list[ReasoningPart]:
        self._unread.add(text)
        return list(self._parts())

    def finish(self) -> list[ReasoningPart]:
        self._unread.has_ended = True
        return list(self._parts())

    def cut(self) -> list[ReasoningPart]:
        """See `CutParser`."""
        return list(self._said("", is_last=True))

    def call_begun(self) -> list[ReasoningPart]:
        """Ends the reasoning where a call begins; returns what was held back."""
        was_reasoning = self.is_reasoning
        held = self.finish()
        self._unread.has_ended = self.is_reasoning = False
        self._drops_space = True
        return [*held, Repair("reasoning")] if was_reasoning else held

    def _parts(self) -> Iterator[ReasoningPart]:
        thinking = self._thinking
        if thinking is None:
            yield Content(self._unread.read(None))
            return
        while True:
            text, mark, anchor = self._unread.until(*self._awaited(thinking))
            is_within = self._is_structured and not self.is_reasoning
            if mark and is_within and text.strip():
                yield from self._said(text + mark, is_last=True)
                continue
            yield from self._said(text, is_last=not mark and self._unread.has_ended)
            if anchor is None:
                return
            self._space, self._drops_space = "", True
            self._has_thought |= self.is_reasoning
            self.is_reasoning = anchor is thinking.opens

    def _awaited(self, thinking: Field) -> tuple[Anchor | None, ...]:
        """Returns what may come next; nothing within a structured output."""
        if self.is_reasoning:
            return (thinking.closes,)
        if self._is_structured:
            has_begun = self._has_thought or self._has_content
            return () if has_begun else (thinking.opens,)
        return (thinking.opens, *self._marks)

    def _said(self, text: str, *, is_last: bool) -> Iterator[ReasoningPart]:
        """Yields a text without the white space around reasoning."""
        text, self._space = self._space + text, ""
        if self._drops_space:
            text = text.lstrip()
            self._drops_space = not text
        sure = len(text) if text.strip() or is_last else 0
        if self.is_reasoning:
            sure = without_space(text)
        self._space = text[sure:]
        if sure and self.is_reasoning:
            yield Reasoning(text[:sure])
        elif sure:
            self._has_content = True
            yield Content(text[:sure])


def _template(tokenizer: Mapping[str, object] | None) -> ResponseTemplate | None:
    """Returns the template of a tokenizer's configuration; None before that is known.

    Raises:
        ValueError: It has none.
    """
    if tokenizer is None:
        return None
    given = tokenizer.get("response_template")
    if given is None:
        raise ValueError("the model's tokenizer has no response_template")
    return template_of(given)


def _marks(template: ResponseTemplate) -> tuple[Anchor | None, ...]:
    """Returns what opens and closes contents."""
    content = template.fields.get(FIELD_OF_CONTENT)
    return () if content is None else (content.opens, content.closes)
