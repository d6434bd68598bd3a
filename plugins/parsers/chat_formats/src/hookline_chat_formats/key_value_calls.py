"""Calls as keys and values in tags: GLM 4.5 and later."""

import re

from hookline_chat_formats.typed_values import ArgumentWriter
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers, Waits
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEY = "<arg_key>"
_KEY_END, _VALUE, _VALUE_END = "</arg_key>", "<arg_value>", "</arg_value>"
_AFTER_NAME = Markers(KEY, _KEY_END, _VALUE, OPEN, CLOSE, "{")
_AFTER_KEY = Markers(KEY, _KEY_END, _VALUE, _VALUE_END, OPEN, CLOSE)
_ENDS = {
    _VALUE_END: (KEY, CLOSE, OPEN, _VALUE_END),
    KEY: (),
    CLOSE: (OPEN,),
}
_NAME = re.compile(r"[\w.:-]+")
_SHORT_NAME = 128
_LONGEST_HEAD = 2 * _SHORT_NAME


class KeyValueCall:
    """`f <arg_key>a</arg_key> <arg_value>1</arg_value> … </tool_call>`.

    The opening tags of keys and values may be missing, or written twice, and JSON may
    be in their place.
    """

    def __init__(self, parser: SteppedToolParser) -> None:
        """Reads nothing yet; the parser's reader is behind the opening tag."""
        self._parser = parser
        self._reader = parser.reader
        self._has_slips = False

    def steps(self, *, needs_known: bool = False) -> ToolSteps[bool]:
        """Yields the call; returns whether it was one."""
        head = yield from self._reader.before(_AFTER_NAME, _LONGEST_HEAD)
        if head is None:
            return False
        name, key = head.strip(), ""
        if (yield from self._reader.is_at(_KEY_END)):
            name, key = self._split(name)
        is_json = yield from self._reader.is_at("{")
        if not _NAME.fullmatch(name):
            return False
        if self._parser.known(name) is None and (needs_known or key or is_json):
            return False
        if is_json:
            yield self._parser.begin_call(name)
            yield from self._parser.json_arguments()
            yield from self._reader.skip_space()
            yield from self._reader.accept(CLOSE)
            yield Repair("dialect")
        else:
            yield from self.arguments(name, key)
        return True

    def arguments(
        self, name: str, key: str = "", end: str | None = ""
    ) -> ToolSteps[None]:
        """Yields a call whose name was read.

        Args:
            name: The name.
            key: The first key; empty if it was not read.
            end: The last tag that was read; none if empty.
        """
        yield self._parser.begin_call(name)
        self._has_slips = bool(key)
        schema = self._parser.tools.get(self._parser.known(name) or name, {})
        writer = ArgumentWriter(
            self._parser, schema, has_lines=False, ends=_ENDS, word_end=_KEY_END
        )
        while end is not None and end != CLOSE:
            key = key or (yield from self._key(end))
            if not key:
                break
            yield from self._tags(_KEY_END)
            yield from self._reader.skip_space()
            if not (yield from self._reader.accept(_VALUE)):
                self._has_slips = True
            end, key = (yield from writer.value(key)), ""
            self._has_slips = self._has_slips or end in (KEY, CLOSE)
            if end == _VALUE_END:
                yield from self._tags(_VALUE_END)
        if end is not None and not self._reader.is_over:
            yield writer.closing_brace()
            yield from self._reader.skip_space()
            yield from self._reader.accept(CLOSE)
        if self._has_slips:
            yield Repair("markup")

    def _split(self, head: str) -> tuple[str, str]:
        """Returns the name and the key of a head that has no tag between them."""
        name, *rest = head.split(None, 1) or [""]
        if rest:
            return name, rest[0]
        names = [each for each in self._parser.tools if name.startswith(each)]
        found = max(names, key=len, default=name)
        return found, name[len(found) :]

    def _key(self, end: str) -> Waits[str]:
        """Reads a key behind the end of a value; empty if there is none."""
        tags = (KEY,) if end else (KEY, OPEN)
        count = yield from self._tags(*tags)
        if not count and end != KEY and not (yield from self._reader.is_word(_KEY_END)):
            return ""
        self._has_slips = self._has_slips or not (count or end == KEY)
        key = yield from self._reader.before(_AFTER_KEY, _SHORT_NAME)
        return (key or "").strip()

    def _tags(self, *tags: str) -> Waits[int]:
        """Reads tags, and white space beside them; returns their number."""
        count = 0
        while True:
            yield from self._reader.skip_space()
            for tag in tags:
                if (yield from self._reader.accept(tag)):
                    count += 1
                    break
            else:
                self._has_slips = self._has_slips or count > 1
                return count
