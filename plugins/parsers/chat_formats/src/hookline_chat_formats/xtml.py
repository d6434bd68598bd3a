"""Calls and channels in tags of control tokens: Kimi K3.

A tag is `<|open|>NAME ATTRIBUTES<|sep|>` or `<|close|>NAME<|sep|>`. The channels are
`think`, `response` and `tools`, in which each call is a `call` with an `argument` for
each value, whose attribute says its type.
"""

import re
from collections.abc import Mapping
from functools import partial

from hookline_chat_formats.thinking import Tags, ThinkingParser
from hookline_chat_formats.typed_values import ArgumentWriter
from hookline_server.reply_parsing.parts import Content, Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_OPEN, _CLOSE, _SEPARATOR = "<|open|>", "<|close|>", "<|sep|>"
_HEADER_ENDS = Markers(_OPEN, _CLOSE, _SEPARATOR)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_WORD = re.compile(r"\w")


def _tag(begin: str, name: str) -> str:
    return f"{begin}{name}{_SEPARATOR}"


_CALL = f"{_OPEN}call "
_CALL_END = _tag(_CLOSE, "call")
_ARGUMENT_END = _tag(_CLOSE, "argument")
_JSON_END = _tag(_CLOSE, "json")
_VALUE_ENDS: Mapping[str, tuple[str, ...]] = {_ARGUMENT_END: (), _CALL_END: ()}
_RESPONSE, _RESPONSE_END = _tag(_OPEN, "response"), _tag(_CLOSE, "response")
_REST = (_tag(_CLOSE, "message"), "<|end_of_msg|>")
_FRAMES = (
    _RESPONSE,
    _RESPONSE_END,
    _tag(_OPEN, "tools"),
    _tag(_CLOSE, "tools"),
    *_REST,
)
_BEGINS = Markers(_CALL, *_FRAMES)


class KimiK3Parser(SteppedToolParser):
    """`<|open|>call tool="f" index="1"<|sep|>…<|close|>call<|sep|>` for each call."""

    frames = _FRAMES
    control_tokens = (_ARGUMENT_END, _JSON_END, _CALL_END)

    _header = ""
    """The attributes of the last opening tag."""

    def steps(self) -> ToolSteps[None]:
        while (marker := (yield from self.content_until(_BEGINS))) is not None:
            name = (yield from self._attributes()).get("tool")
            if not name:
                said = self.not_a_call(marker)
                if isinstance(said, Content):
                    text = said.text.replace(marker, "", 1)
                    said = Content(text.replace(_SEPARATOR, ""))
                yield said
                continue
            yield self.begin_call(name)
            yield from self._arguments(self.tools.get(name, {}))

    def _attributes(self) -> ToolSteps[Mapping[str, str]]:
        """Reads the rest of an opening tag; returns its attributes."""
        text = yield from self.reader.before(_HEADER_ENDS)
        self._header = text or ""
        if text is None or _WORD.search(_ATTRIBUTE.sub("", text)):
            return {}
        yield from self.reader.accept(_SEPARATOR)
        return {
            key: value.replace("&quot;", '"').replace("&amp;", "&")
            for key, value in _ATTRIBUTE.findall(text)
        }

    def _arguments(self, schema: Mapping[str, object]) -> ToolSteps[None]:
        writer = ArgumentWriter(self, schema, has_lines=False, ends=_VALUE_ENDS)
        is_open, lost = True, ""
        while is_open and not self.reader.is_over:
            yield from self.reader.skip_space()
            if (yield from self.reader.accept(f"{_OPEN}argument ")):
                given = yield from self._attributes()
                if (key := given.get("key")) is None:
                    lost = self._header
                    yield from self.reader.accept(_SEPARATOR)
                    break
                is_text = given.get("type", "string") == "string"
                marker = yield from writer.value(key, is_text=is_text)
                is_open = marker == _ARGUMENT_END
                if marker is None:
                    return
            elif (yield from self.reader.accept(f"{_OPEN}json")):
                yield from self._attributes()
                yield from self.json_arguments()
                yield from self.reader.accept(_JSON_END)
                yield from self.reader.skip_space()
                yield from self.reader.accept(_CALL_END)
                return
            elif (yield from self.reader.is_at("{")):
                yield from self.json_arguments()
                yield from self.reader.skip_space()
                yield from self.reader.accept(_CALL_END)
                yield Repair("markup")
                return
            else:
                yield from self.reader.accept(_CALL_END)
                break
        yield writer.closing_brace()
        if lost:
            yield Content(lost)


KimiK3ThinkingParser = partial(
    ThinkingParser,
    tags=Tags(
        opens=(_tag(_OPEN, "think"),),
        closes=(_tag(_CLOSE, "think"), _RESPONSE),
        answer=(_RESPONSE, _RESPONSE_END),
        answer_space="",
        frames=_REST,
    ),
)
"""A reply whose prompt ends within the channel `response` has no reasoning."""
