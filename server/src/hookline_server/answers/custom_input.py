"""The input of a custom tool, which the model writes as an argument in JSON."""

import json
import re

import msgspec

from hookline_server.protocol.call_forms import CUSTOM_INPUT
from hookline_server.protocol.wire import MALFORMED

_BEGIN = re.compile(rf'\s*\{{\s*"{CUSTOM_INPUT}"\s*:\s*"')
_LONGEST_BEGIN = 256
"""Maximum characters before the text, white space included."""

# Characters and escapes that have arrived as a whole. The first of two escapes for one
# character waits for the second; possessive quantifiers keep the time linear.
_WHOLE = re.compile(
    r"""(?:
        [^"\\]++
      | \\[^u]
      | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
      | \\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\]|\\[^u]))
      | \\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])
    )*+""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"((?:\\u[0-9a-fA-F]{4})+)|\\(.)", re.DOTALL)
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class CustomInput:
    """Decodes `{"input": "…"}` as it arrives.

    What is not of this form is told at the end: the only text of an object, or all that
    the model wrote.
    """

    def __init__(self) -> None:
        self._text = ""
        self._at: int | None = None
        self._has_ended = False

    def push(self, text: str) -> str:
        """Returns what the next piece of JSON adds to the input."""
        if self._has_ended:
            return ""
        self._text += text
        if self._at is None:
            found = _BEGIN.match(self._text[:_LONGEST_BEGIN])
            if found is None:
                return ""
            self._at = found.end()
        whole = _WHOLE.match(self._text, self._at)
        assert whole is not None  # it may be empty
        self._text, self._at = self._text[whole.end() :], 0
        self._has_ended = self._text.startswith('"')
        return _decoded(whole.group())

    def finish(self) -> str:
        """Returns what is missing of the input when the call has ended."""
        if self._has_ended:
            return ""
        # Half an escape has no meaning.
        return _only_text(self._text) if self._at is None else ""


def _decoded(text: str) -> str:
    return _ESCAPE.sub(_meaning, text) if "\\" in text else text


def _meaning(match: re.Match[str]) -> str:
    numbers, letter = match.groups()
    if numbers is None:
        plain = letter if letter in '"\\/' else match.group()
        return _MEANINGS.get(letter, plain)
    text: str = json.loads(f'"{numbers}"')
    return text.encode("utf-8", "replace").decode()


def _only_text(text: str) -> str:
    """Returns the input that a model wrote in another form."""
    try:
        value = msgspec.json.decode(text)
    except MALFORMED:
        return text
    if isinstance(value, dict):
        texts = [value[CUSTOM_INPUT]] if CUSTOM_INPUT in value else [*value.values()]
        value = texts[0] if len(texts) == 1 else value
    return value if isinstance(value, str) else text
