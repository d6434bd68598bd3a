"""Calls whose arguments are nested elements, named after them: MiniMax M3."""

import json
import re
from collections.abc import Mapping, Sequence

from hookline_chat_formats.json_calls import json_calls
from hookline_chat_formats.typed_values import as_json
from hookline_chat_formats.value_types import alternatives, member_schema, takes
from hookline_server.reply_parsing.parts import CallArguments, Content, Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_MARK = "]<]minimax[>["
"""What precedes every tag of a call."""

_CALLS, _CALLS_END = f"{_MARK}<tool_call>", f"{_MARK}</tool_call>"
_CALL, _CALL_END = f"{_MARK}<invoke name=", f"{_MARK}</invoke>"
_OPEN = f"{_MARK}<"
_ENDS = (_CALL_END, _CALLS_END)
_BEGINS = Markers(_CALLS, _CALL, *_ENDS)
_TAG_ENDS = Markers(">")
_TAG = re.compile(re.escape(_MARK) + r"<(/?)([^<>]*)>")
_NAME = re.compile(r"[\w.:-]+")
_WORDS = re.compile(r"\s")
"""Names have no white space: with it, a tag that was cut short is content."""
_PARAMETER = re.compile(r"""parameter name=["']([^"']*)["']""")
"""How MiniMax M2 opens an argument."""
_ITEM = "item"
"""The name of a list's elements."""

DEEPEST = 64
"""Maximum levels of elements; the tags of deeper ones are left out."""

Element = tuple[str, "Inside"]
Inside = str | list[Element]
"""An element's text, or the elements in it."""


class MiniMaxM3Parser(SteppedToolParser):
    """`<tool_call><invoke name="f"><a>1</a></invoke></tool_call>`, each tag marked.

    An element with further ones in it is an object, or a list if the schema says so or
    they are called `item`.
    """

    needs_special_tokens = False
    control_tokens = (_MARK,)

    _words = ""
    """Text in a call that is no argument."""

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_BEGINS, _ENDS))) is not None:
            name = yield from self._name(marker)
            if name is None:
                is_json = marker == _CALLS and (
                    yield from json_calls(self, names=self.tools)
                )
                yield Repair("dialect") if is_json else self.not_a_call(marker)
                continue
            yield self.begin_call(name)
            yield from self._arguments(self.tools.get(name, {}))
            for end in _ENDS:
                yield from self.reader.skip_space()
                yield from self.reader.accept(end)

    def _name(self, marker: str) -> ToolSteps[str | None]:
        """Reads the rest of a call's opening tag; None if there is no call."""
        if marker == _CALLS:
            yield from self.reader.skip_space()
            if not (yield from self.reader.accept(_CALL)):
                return None
        name = yield from self.reader.before(_TAG_ENDS)
        if name is None or not _NAME.fullmatch(name := name.strip("\"' ")):
            return None
        yield from self.reader.accept(">")
        return name

    def _arguments(self, root: Mapping[str, object]) -> ToolSteps[None]:
        """Yields the arguments; neighbours of one name are a list."""
        yield from self.reader.skip_space()
        if (yield from self.reader.is_at("{")):
            yield from self.json_arguments()
            yield Repair("markup")
            return
        start, last, values = "{", "", list[str]()
        marker: str | None = ""
        while marker is not None and marker != _CALL_END:
            name, tag = yield from self._element()
            if values and name != last:
                yield CallArguments(f"{start}{_quoted(last)}: {_joined(values)}")
                start, values = ", ", []
            if name is None:
                break
            schema = member_schema(root, name, root)
            if isinstance(schema, Mapping) and schema.get("type") == "string":
                yield CallArguments(f'{start}{_quoted(name)}: "')
                marker, start = (yield from self._text(tag)), ", "
                continue
            text, marker = yield from self._inner(tag)
            last, values = name, [*values, _json(_read(text), schema, root)]
        if values:
            yield CallArguments(f"{start}{_quoted(last)}: {_joined(values)}")
            start = ", "
        yield CallArguments("{}" if start == "{" else "}")
        if self._words:
            yield Content(self._words)
            self._words = ""

    def _text(self, tag: str) -> ToolSteps[str | None]:
        """Yields a text as it arrives; returns what ended it."""
        ends, marker = Markers(f"{_MARK}</{tag}>", _CALL_END), None
        while marker is None and not self.reader.is_over:
            piece, marker = yield from self.reader.read_until(ends)
            yield CallArguments(_quoted(piece)[1:-1])
        yield CallArguments('"')
        return marker

    def _element(self) -> ToolSteps[tuple[str | None, str]]:
        """Reads the opening tag of an argument.

        Returns:
            The argument's name, None at the end, and the tag's.
        """
        yield from self.reader.skip_space()
        if (yield from self.reader.is_at(_CALL)) or (
            yield from self.reader.is_at(f"{_OPEN}/")
        ):
            return None, ""
        if not (yield from self.reader.accept(_OPEN)):
            return None, ""
        name = yield from self.reader.before(_TAG_ENDS)
        if name is None:
            if _WORDS.search(text := (yield from self.reader.take_all())):
                self._words = text
            return None, ""
        yield from self.reader.accept(">")
        if (named := _PARAMETER.fullmatch(name)) is None:
            return name, name
        yield Repair("dialect")
        return named[1], "parameter"

    def _inner(self, tag: str) -> ToolSteps[tuple[str, str | None]]:
        """Reads what is inside an element, and what ends it, which it returns, too."""
        opens, closes = f"{_OPEN}{tag}>", f"{_MARK}</{tag}>"
        ends, depth = Markers(opens, closes, _CALL_END), 1
        pieces: list[str] = []
        while True:
            piece, marker = yield from self.reader.read_until(ends)
            depth += (marker == opens) - (marker == closes)
            pieces.append(piece)
            if not depth or marker == _CALL_END or self.reader.is_over:
                return "".join(pieces), marker
            pieces.append(marker or "")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _joined(values: Sequence[str]) -> str:
    """Returns one value, or the list of several."""
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"


def _read(text: str) -> Inside:
    """Reads nested elements; closing tags that fit nothing are left out."""
    inside: list[Element] = []
    open_ones: list[tuple[str, list[Element]]] = [("", inside)]
    texts = [""]
    at = 0
    for tag in _TAG.finditer(text):
        texts[-1] += text[at : tag.start()]
        at = tag.end()
        name = tag[2].strip()
        if not tag[1]:
            if len(open_ones) <= DEEPEST:
                open_ones.append((name, []))
                texts.append("")
        elif len(open_ones) > 1 and open_ones[-1][0] == name:
            _close(open_ones, texts)
    texts[-1] += text[at:]
    while len(open_ones) > 1:
        _close(open_ones, texts)
    return _content(inside, texts[0])


def _close(open_ones: list[tuple[str, list[Element]]], texts: list[str]) -> None:
    """Puts the innermost element into the one around it."""
    name, elements = open_ones.pop()
    open_ones[-1][1].append((name, _content(elements, texts.pop())))


def _content(elements: list[Element], text: str) -> Inside:
    """Returns what is in an element; text between others has a name of its own."""
    if not elements:
        return text
    if text.strip():
        name = "$text"
        while any(each == name for each, _ in elements):
            name = f"${name}"
        elements.append((name, text))
    return elements


def _json(inside: Inside, schema: object, root: Mapping[str, object]) -> str:
    """Returns what an element says as JSON of the schema's type."""
    kind = _container(schema, root)
    if isinstance(inside, str):
        if kind is not None and not inside.strip() and not takes(schema, "", root):
            return "[]" if kind == "array" else "{}"
        return as_json(inside, schema, root)
    if kind is None and all(name == _ITEM for name, _ in inside):
        kind = "array"
    if kind == "array":
        items = member_schema(schema, None, root)
        return f"[{', '.join(_json(each, items, root) for _, each in inside)}]"
    members: dict[str, list[str]] = {}
    for name, each in inside:
        value = _json(each, member_schema(schema, name, root), root)
        members.setdefault(name, []).append(value)
    pairs = (f"{_quoted(name)}: {_joined(values)}" for name, values in members.items())
    return f"{{{', '.join(pairs)}}}"


def _container(schema: object, root: Mapping[str, object]) -> str | None:
    """Returns whether a schema wants an array or an object; None if neither."""
    for each in alternatives(schema, root):
        types = None if each is None else each.get("type")
        for kind in ("array", "object"):
            if types == kind or (isinstance(types, list) and kind in types):
                return kind
        if each is not None and types is None and "items" in each:
            return "array"
        if each is not None and types is None and "properties" in each:
            return "object"
    return None
