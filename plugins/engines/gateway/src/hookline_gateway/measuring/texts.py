"""The texts of requests and answers, for whoever counts their tokens."""

from collections.abc import Mapping, Sequence

import msgspec

from hookline_gateway.measuring.event_meter import messages

_NONE = msgspec.Raw(b"null")
_FIELDS = ("reasoning_content", "reasoning", "content", "text", "partial_json")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Prompt(msgspec.Struct):
    prompt: str | None = None
    messages: list[dict[str, object]] | None = None
    tools: list[object] | None = None


class _Choice(msgspec.Struct):
    text: msgspec.Raw = _NONE
    delta: msgspec.Raw = _NONE
    message: msgspec.Raw = _NONE


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    delta: msgspec.Raw = _NONE


_prompt_of = msgspec.json.Decoder(_Prompt).decode
_answer_of = msgspec.json.Decoder(_Answer).decode
_value_of = msgspec.json.Decoder().decode


class Prompt(msgspec.Struct, frozen=True):
    """What a request asks with: a text, or a chat with its tools."""

    text: str | None
    chat: Sequence[Mapping[str, object]]
    tools: Sequence[object] | None

    @classmethod
    def read(cls, body: bytes) -> "Prompt | None":
        """Reads a request's body; None if it has neither, or several texts."""
        try:
            found = _prompt_of(body)
        except _UNREADABLE:
            return None
        if found.prompt is None and not found.messages:
            return None
        return cls(found.prompt, found.messages or (), found.tools)


def texts_of(body: bytes, *, is_stream: bool) -> str:
    """Returns all that an answer has generated; nothing of what it cannot read."""
    parts = messages(body) if is_stream else (body,)
    return "".join(map(_text, parts))


def _text(message: bytes) -> str:
    try:
        answer = _answer_of(message)
        found = [answer.delta]
        for choice in answer.choices:
            found += (choice.text, choice.delta, choice.message)
        return "".join(_texts(_value_of(each)) for each in found)
    except _UNREADABLE:
        return ""


def _texts(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    found = (value.get(name) for name in _FIELDS)
    return "".join(each for each in found if isinstance(each, str))
