"""Matches regular expressions of a configuration, in time that they cannot blow up.

An adapter's files may come from anywhere, and Python's own expressions can take
forever, or all memory when they are compiled. These are run as sets of states, whose
number is limited; look-around, references and flags are refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

MAX_CHARS: Final = 4096
_MOST_PARTS = 16_384
"""Of states and what connects them."""
_MOST_DEPTH = 32
_MOST_STEPS = 500_000
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(" \t\n\r\f\v")
_PLACES = {"A": "^", "Z": "$", "b": "b", "B": "B"}
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_SPECIAL = frozenset(".^$*+?{}[]\\|()")


@dataclass(frozen=True, slots=True)
class _Chars:
    """A set of characters, or all but those."""

    chars: frozenset[str]
    is_negated: bool = False

    def __contains__(self, char: str) -> bool:
        return (char in self.chars) is not self.is_negated


_Build = Callable[[int, int], None]
"""Adds to the states what leads from one of them to another."""


@dataclass(slots=True)
class _States:
    """Where each state leads: always, at some places of a text, or with a character."""

    always: dict[int, list[int]] = field(default_factory=dict)
    at: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    reading: dict[int, list[tuple[_Chars, int]]] = field(default_factory=dict)
    count: int = 2
    num_parts: int = 2

    def new(self) -> int:
        """Adds a state."""
        self._add_part()
        self.count += 1
        return self.count - 1

    def lead(self, start: int, end: int) -> None:
        """Leads from one state to another, always."""
        self._add_part()
        self.always.setdefault(start, []).append(end)

    def lead_at(self, start: int, kind: str, end: int) -> None:
        """Leads there at a place of a text."""
        self._add_part()
        self.at.setdefault(start, []).append((kind, end))

    def lead_with(self, start: int, chars: _Chars, end: int) -> None:
        """Leads there with a character."""
        self._add_part()
        self.reading.setdefault(start, []).append((chars, end))

    def _add_part(self) -> None:
        self.num_parts += 1
        if self.num_parts > _MOST_PARTS:
            raise ValueError("it is too large")


class Pattern:
    """A regular expression."""

    def __init__(self, text: str) -> None:
        """Compiles it.

        Raises:
            ValueError: It is wrong, too large, or needs what is not supported.
        """
        if len(text) > MAX_CHARS:
            raise ValueError(f"it has more than {MAX_CHARS} characters")
        self._states = _States()
        _Parser(text, self._states).build(0, 1)
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._steps = 0

    def matches(self, text: str) -> bool:
        """Whether it matches all of a text.

        Raises:
            ValueError: All texts together have taken too many steps.
        """
        states, before = frozenset((0,)), ""
        for char in text:
            states = self._after(states, before, char)
            before = char
        return 1 in self._reached(states, before, "")

    def _after(self, states: frozenset[int], before: str, char: str) -> frozenset[int]:
        """The states behind a character, from those in front of it."""
        key = (states, before, char)
        if (known := self._known.get(key)) is None:
            reading = self._states.reading
            known = self._known[key] = frozenset(
                target
                for state in self._reached(states, before, char)
                for chars, target in reading.get(state, ())
                if char in chars
            )
        return known

    def _reached(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """All states at a place between two characters, from some of them."""
        found, left = set(states), list(states)
        while left:
            state = left.pop()
            more = list(self._states.always.get(state, ()))
            self._steps += 1 + len(more)
            if self._steps > _MOST_STEPS:
                raise ValueError("it takes too long")
            for kind, target in self._states.at.get(state, ()):
                if _holds(kind, before, after):
                    more.append(target)
            left += [each for each in more if each not in found]
            found.update(more)
        return found


def _holds(kind: str, before: str, after: str) -> bool:
    if kind == "^":
        return not before
    if kind == "$":
        return not after
    return ((before in _WORD) != (after in _WORD)) is (kind == "b")


class _Parser:
    """Reads an expression, and makes its states."""

    def __init__(self, text: str, states: _States) -> None:
        self._text, self._states = text, states
        self._at = self._depth = 0

    def build(self, start: int, end: int) -> None:
        whole = self._alternatives()
        if self._at < len(self._text):
            raise ValueError("it has an unmatched )")
        whole(start, end)

    def _alternatives(self) -> _Build:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("its groups are nested too deeply")
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        self._depth -= 1

        def build(start: int, end: int) -> None:
            for each in found:
                each(start, end)

        return build

    def _sequence(self) -> _Build:
        found: list[_Build] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            found.append(self._repeated(self._atom()))

        def build(start: int, end: int) -> None:
            for each in found:
                after = self._states.new()
                each(start, after)
                start = after
            self._states.lead(start, end)

        return build

    def _repeated(self, once: _Build) -> _Build:
        counts = self._counts()
        if counts is None:
            return once
        least, most = counts
        if self._take("+") or self._next() in "*{":
            raise ValueError("it repeats a repetition")
        self._take("?")  # the fewest or the most: the same texts match

        def build(start: int, end: int) -> None:
            for _ in range(least):
                after = self._states.new()
                once(start, after)
                start = after
            if most is None:
                before, after = self._states.new(), self._states.new()
                self._states.lead(start, before)
                once(before, after)
                self._states.lead(after, before)
                self._states.lead(before, end)
                return
            for _ in range(most - least):
                self._states.lead(start, end)
                after = self._states.new()
                once(start, after)
                start = after
            self._states.lead(start, end)

        return build

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        if not self._take("{"):
            return None
        text, closed, _ = self._text[self._at :].partition("}")
        first, comma, last = text.partition(",")
        numbers = [each for each in (first, last) if each]
        if not closed or not all(_is_count(each) for each in numbers) or not numbers:
            raise ValueError("it has a { that counts nothing")
        self._at += len(text) + 1
        least = int(first or 0)
        most = (int(last) if last else None) if comma else least
        if most is not None and most < least:
            raise ValueError("it has a { that counts nothing")
        return least, most

    def _atom(self) -> _Build:
        char = self._any()
        if char == "(":
            return self._group()
        if char in "^$":
            return self._placed(char)
        if char in "*+?{":
            raise ValueError(f"it has nothing to repeat before {char}")
        if char == "\\" and self._next() in _PLACES:
            return self._placed(_PLACES[self._any()])
        return self._read(self._chars(char))

    def _group(self) -> _Build:
        if self._take("?") and not self._take(":"):
            raise ValueError("it has a group of a kind that is not supported")
        inside = self._alternatives()
        if not self._take(")"):
            raise ValueError("it has an unmatched (")
        return inside

    def _chars(self, first: str) -> _Chars:
        if first == "[":
            return _Chars(*self._class())
        if first == ".":
            return _Chars(frozenset("\n"), is_negated=True)
        return _escape(self._any()) if first == "\\" else _Chars(frozenset(first))

    def _class(self) -> tuple[frozenset[str], bool]:
        is_negated = self._take("^")
        chars: set[str] = set()
        is_first = True
        while is_first or self._next() != "]":
            is_first = False
            found = self._member()
            if self._next() == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._any()
                chars.update(_span(found, self._member()))
            else:
                chars.update(found)
        self._any()
        return frozenset(chars), is_negated

    def _member(self) -> frozenset[str]:
        char = self._any()
        if char != "\\":
            return frozenset(char)
        found = _escape(self._any())
        if found.is_negated:
            raise ValueError("it has a class in a class")
        return found.chars

    def _read(self, chars: _Chars) -> _Build:
        return lambda start, end: self._states.lead_with(start, chars, end)

    def _placed(self, kind: str) -> _Build:
        return lambda start, end: self._states.lead_at(start, kind, end)

    def _next(self) -> str:
        """The next character; NUL at the end, which is no sign."""
        return self._text[self._at] if self._at < len(self._text) else "\0"

    def _any(self) -> str:
        if self._at == len(self._text):
            raise ValueError("it is cut off")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, char: str) -> bool:
        if self._next() != char:
            return False
        self._at += 1
        return True


def is_plain(text: str) -> bool:
    """Whether an expression is a name; its dots stand for dots."""
    return not _SPECIAL.intersection(text.replace(".", ""))


def endings(name: str) -> Iterator[str]:
    """Yields a module's name, and what is left of it behind each of its dots."""
    yield name
    while "." in name:
        name = name.partition(".")[2]
        yield name


def _escape(char: str) -> _Chars:
    if char.lower() in _CLASSES:
        return _Chars(_CLASSES[char.lower()], is_negated=char.isupper())
    if char.isalnum():
        raise ValueError(f"it has \\{char}, which is not supported")
    return _Chars(frozenset(char))


def _span(first: frozenset[str], last: frozenset[str]) -> Iterator[str]:
    if len(first) != 1 or len(last) != 1:
        raise ValueError("it has a range of classes")
    start, end = ord(min(first)), ord(min(last))
    if not start <= end < 0x250:
        raise ValueError("it has a range that is empty, or too large")
    return map(chr, range(start, end + 1))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 3
