"""Calls after a control token: Mistral."""

import secrets
import string

from hookline_chat_formats.json_calls import json_calls
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.reader import Markers
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

_CALLS, _ID, _ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_STRAYS = (_ID, _ARGUMENTS)
_MARKERS = Markers(_CALLS, *_STRAYS)
_AFTER_NAME = Markers(_ID, _ARGUMENTS, "{")
_AFTER_ID = Markers(_ARGUMENTS, "{")
_ID_CHARACTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9
"""Mistral's chat templates refuse ids of any other length."""


class MistralParser(SteppedToolParser):
    """`[TOOL_CALLS][{"name": "f", "arguments": {…}}, …]`.

    Since version 11 it is `[TOOL_CALLS]f[ARGS]{…}` for each call. Models forget the
    token before a list at the start of a reply.
    """

    control_tokens = (_CALLS,)

    def call_id(self, name: str, index: int) -> str:  # noqa: ARG002
        """See `NamesCalls`."""
        return _make_id()

    def steps(self) -> ToolSteps[None]:
        self.reader.record()
        yield from self.reader.skip_space()
        is_tagged = yield from self.reader.is_at(_CALLS)
        if is_tagged or not (
            yield from json_calls(self, names=self.tools, make_id=_make_id)
        ):
            yield self.not_a_call("")
        else:
            yield Repair("markup")
        while (
            marker := (yield from self.content_until(_MARKERS, _STRAYS))
        ) is not None:
            yield from self.reader.skip_space()
            if (yield from self.reader.peek()) in ("[", "{"):
                is_call = yield from json_calls(self, make_id=_make_id)
            else:
                is_call = yield from self._named()
            if not is_call:
                yield self.not_a_call(marker)

    def _named(self) -> ToolSteps[bool]:
        name = yield from self.reader.before(_AFTER_NAME)
        if name is None or not name.strip():
            return False
        call_id: str | None = None
        if (yield from self.reader.accept(_ID)):
            call_id = yield from self.reader.before(_AFTER_ID)
        is_named = yield from self.reader.accept(_ARGUMENTS)
        yield from self.reader.skip_space()
        has_arguments = (yield from self.reader.peek()) == "{"
        if not has_arguments and not (is_named and self.reader.is_cut):
            return False
        yield self.begin_call(name.strip(), (call_id or "").strip() or _make_id())
        yield from self.json_arguments()
        return True


def _make_id() -> str:
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))
