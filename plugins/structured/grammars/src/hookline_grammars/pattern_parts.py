"""Splits regular expressions into the parts that backends treat differently."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPE = r"\\(?:u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c.|.)"
_PART = re.compile(
    rf"(?P<set>\[\^?(?:{_ESCAPE}|[^\]\\])*\])|(?P<escape>{_ESCAPE})|(?P<other>.)",
    re.DOTALL,
)
_MEMBER = re.compile(rf"({_ESCAPE}|.)(?:-({_ESCAPE}|[^\]]))?", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_NO_LINE_END = "[^\\n\\r\u2028\u2029]"
_MANY = frozenset("dDsSwWpPbB")
"""Letters whose escapes stand for many characters, or for none."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A character class in brackets.

    Attributes:
        text: How it is written.
        is_negated: Whether it stands for all other characters.
        ranges: First and last of its characters; a single one is both. Escapes of many
            characters are left out.
    """

    text: str
    is_negated: bool
    ranges: tuple[tuple[str, str], ...]


def parts(pattern: str) -> Iterator[str | CharacterSet]:
    """Yields the characters and character classes of a pattern.

    Operators count as characters. Escapes of one character are that character; those of
    many are left out.
    """
    for match in _PART.finditer(pattern):
        text = match.group()
        if match.lastgroup == "set":
            yield _set(text)
        elif match.lastgroup == "escape":
            if (char := _meaning(text)) is not None:
                yield char
        else:
            yield text


def without_line_ends(pattern: str) -> str:
    """Returns a pattern whose `.` matches no line end, as Python's and ECMA's.

    Libraries take it for any character.
    """
    return "".join(
        _NO_LINE_END if match["other"] == "." else match.group()
        for match in _PART.finditer(pattern)
    )


def _set(text: str) -> CharacterSet:
    is_negated = text.startswith("[^")
    inner = text[2 if is_negated else 1 : -1]
    found = []
    for first, last in _MEMBER.findall(inner):
        low, high = _meaning(first), _meaning(last) if last else None
        if low is not None:
            found.append((low, low if high is None else high))
        if low is None and high is not None:  # `\d-x` is no range
            found.append((high, high))
    return CharacterSet(text, is_negated, tuple(found))


def _meaning(text: str) -> str | None:
    """Returns the character that a text stands for; None if that is no single one."""
    if not text.startswith("\\"):
        return text
    letter, digits = text[1], text[2:].strip("{}")
    if letter in "ux" and digits:
        code = int(digits, 16)
        return chr(code) if code < 0x110000 else None
    if letter == "c" and digits:
        return chr(ord(digits) % 32)
    return None if letter in _MANY else _CONTROLS.get(letter, letter)
