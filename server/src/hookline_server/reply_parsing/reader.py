"""Reads text that arrives in pieces, as if it were all there.

A method that needs more text than has arrived yields None, and continues when there is
more. So a parser is one generator over the whole reply, and its result does not depend
on how the text is cut.

Where a reply was cut short by its length, the start of a tag is no text of it.
"""

import json
import re
from collections.abc import Generator
from typing import TypeVar

from hookline_server.reply_parsing.json_mender import JsonMender

R = TypeVar("R")

Waits = Generator[None, None, R]
"""Yields None whenever it waits for more text, and finally returns an R."""

LONGEST_WORD = 1024
"""Maximum characters of a name, a key or a header."""

_NO_SPACE = re.compile(r"\S")
_WORD = re.compile(r"[\w.-]*+")
_TAG_STARTS = ("<", "[", "]")
# Possessive quantifiers keep the time linear.
_STRINGS = {
    quote: re.compile(
        rf"{quote}[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+{quote}", re.DOTALL
    )
    for quote in ('"', "'")
}


class Markers:
    """Marker texts of a format, none of which is the start of another."""

    def __init__(self, *markers: str) -> None:
        self._markers = markers
        self._pattern = re.compile("|".join(map(re.escape, markers)))
        self._first = frozenset(marker[0] for marker in markers)
        self._longest = max(map(len, markers))

    def search(
        self, text: str, start: int, most: int | None = None
    ) -> re.Match[str] | None:
        """Returns the first marker that begins at most that far after `start`."""
        end = len(text) if most is None else start + most + self._longest
        found = self._pattern.search(text, start, end)
        if found is None or most is None or found.start() - start <= most:
            return found
        return None

    def undecided(self, text: str, start: int) -> int:
        """Returns where a possible marker begins, or the text's length without one."""
        for place in range(max(start, len(text) - self._longest + 1), len(text)):
            if text[place] in self._first:
                rest = text[place:]
                if any(marker.startswith(rest) for marker in self._markers):
                    return place
        return len(text)


class Reader:
    """The text of one reply that has arrived but has not been read yet.

    Attributes:
        is_cut: Whether the text has ended because of its length.
    """

    def __init__(self) -> None:
        self.is_cut = False
        self._text = ""
        self._at = 0
        self._has_ended = False
        self._recorded: list[str] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the text has ended, though not all of it may have been read."""
        return self._has_ended

    @property
    def is_over(self) -> bool:
        """Whether the text has ended and all of it was read."""
        return self._has_ended and self._at == len(self._text)

    def add(self, text: str) -> None:
        """Adds the next piece."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def feed_eof(self, *, is_cut: bool = False) -> None:
        """Marks the end of the text."""
        self._has_ended, self.is_cut = True, is_cut

    def drop_rest(self) -> None:
        """Leaves out what has not been read."""
        self._text = self._text[: self._at]

    def record(self) -> None:
        """Starts to record what is read, until `recorded` returns it."""
        self._recorded = []

    def recorded(self) -> str:
        """Returns what was read since `record`, and stops recording."""
        text = "".join(self._recorded or ())
        self._recorded = None
        return text

    def read_until(self, markers: Markers) -> Waits[tuple[str, str | None]]:
        """Reads the text before the next marker, as far as it has arrived.

        Returns:
            The text, and the marker if it was reached, which is read, too. Both are
            empty only at the end of all text.
        """
        while True:
            found = markers.search(self._text, self._at)
            if found is not None:
                return self._read(found.start()), self._read(found.end())
            sure = markers.undecided(self._text, self._at)
            if self.is_cut and self._text[sure:].lstrip().startswith(_TAG_STARTS):
                self._text = self._text[:sure]
            if self._has_ended:
                sure = len(self._text)
            if sure > self._at or self.is_over:
                return self._read(sure), None
            yield

    def take_all(self) -> Waits[str]:
        """Reads all that has arrived; the text is empty only at the end."""
        yield from self.peek()
        return self._read(len(self._text))

    def before(self, markers: Markers, most: int = LONGEST_WORD) -> Waits[str | None]:
        """Reads a text up to a marker, which is not read.

        Returns:
            The text; None if no marker begins within `most` characters. Then nothing
            has been read, unless the reply was cut short there.
        """
        while True:
            found = markers.search(self._text, self._at, most)
            if found is not None:
                return self._read(found.start())
            sure = markers.undecided(self._text, self._at)
            if sure - self._at > most:
                return None
            if self._has_ended:
                self._read_cut()
                return None
            yield

    def accept(self, expected: str) -> Waits[bool]:
        """Reads this text and returns True, or reads nothing and returns False."""
        is_there = yield from self.is_at(expected)
        if is_there:
            self._read(self._at + len(expected))
        return is_there

    def is_at(self, expected: str) -> Waits[bool]:
        """Returns whether this text comes next; reads nothing."""
        while True:
            end = self._at + len(expected)
            if self._text.startswith(expected, self._at):
                return True
            if not expected.startswith(self._text[self._at : end]):
                return False
            if self._has_ended:
                is_fence = self._recorded is None and expected.startswith("`")
                if self.is_cut and (is_fence or expected.startswith(_TAG_STARTS)):
                    self.drop_rest()
                return False
            yield

    def is_word(self, expected: str) -> Waits[bool]:
        """Returns whether a word comes next, and this text; reads nothing."""
        while True:
            found = _WORD.match(self._text, self._at, self._at + LONGEST_WORD)
            end = self._at if found is None else found.end()
            following = self._text[end : end + len(expected)]
            if following == expected:
                return end > self._at
            is_short = end - self._at < LONGEST_WORD
            if self._has_ended or not (is_short and expected.startswith(following)):
                return False
            yield

    def peek(self) -> Waits[str]:
        """Returns the next character without reading it; empty at the end."""
        while self._at == len(self._text) and not self._has_ended:
            yield
        return self._text[self._at : self._at + 1]

    def skip_space(self) -> Waits[None]:
        """Reads white space."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._read(len(self._text) if found is None else found.start())
            if found is not None or self._has_ended:
                return
            yield

    def json_string(self) -> Waits[str | None]:
        """Reads a short string, also one as Python writes it, and returns its text.

        Without one, it reads nothing and returns None.
        """
        pattern = _STRINGS.get((yield from self.peek()))
        if pattern is None:
            return None
        while True:
            end = self._at + LONGEST_WORD
            found = pattern.match(self._text, self._at, end)
            if found is not None:
                break
            if len(self._text) >= end:
                return None
            if self._has_ended:
                self._read_cut()
                return None
            yield
        return decoded_string(self._read(found.end()))

    def take_json(self, mender: JsonMender) -> Waits[str]:
        """Reads the next piece of the JSON value that the mender follows.

        Returns:
            The piece, which is empty only at the end of all text, or if nothing of it
            belongs to the value.
        """
        yield from self.peek()
        return self._read(mender.scan(self._text, self._at))

    def _read_cut(self) -> None:
        """Reads the rest of a reply that was cut short: it is no beginning."""
        if self.is_cut:
            self._read(len(self._text))

    def _read(self, end: int) -> str:
        text = self._text[self._at : end]
        self._at = end
        if self._recorded is not None and text:
            self._recorded.append(text)
        return text


def decoded_string(quoted: str) -> str:
    """Returns the text of a string that JSON or Python quotes, without surrogates."""
    mender = JsonMender()
    text = str(json.loads(mender.push(quoted) + mender.finish()))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
