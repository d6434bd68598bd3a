"""Looks for stop strings only in what a reply says to the client."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from hookline.frontend.stop_strings import StopSearch
from hookline_server.replies.reply_reader import ReplyReader
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content, Part

_MOST_TRIES = 64
"""Places that are tried for the end of a text; more than the length of any tag."""


class AnswerStops(StopSearch):
    """A search in the content of a reply, and neither in its reasoning nor in calls.

    Text is given out as the model wrote it, but only up to where the parsers have
    decided what it is: what is undecided may become content, and the end of it a stop
    string. Parts do not say where in the text they were, and what a parser has mended
    is nowhere in it. So the place of held content is estimated, never too late; that of
    a stop string, which matters once a reply, is found by reading the text again.
    """

    def __init__(
        self,
        stop: Iterable[str],
        *,
        include_stop: bool,
        make_reader: Callable[[], ReplyReader | None],
    ) -> None:
        """Searches nothing yet.

        Args:
            stop: The stop strings.
            include_stop: Whether the text keeps the one that ends it.
            make_reader: Makes a reader of the reply; if it makes none, all is content.
        """
        super().__init__(stop, include_stop=include_stop)
        self._read_anew: Callable[[], ReplyReader] = lambda: (
            make_reader() or ReplyReader(None, None)
        )
        self._reader = self._read_anew()
        self._whole: list[str] = []
        self._said = 0
        self._calls = 0
        self._text = ""
        self._read = 0
        self._places: list[tuple[int, int]] = []

    def push(self, new: str, *, can_stop: bool) -> str:
        self._text += new
        self._whole.append(new)
        return self._released(self._reader.push(new), can_stop=can_stop)

    def flush(self, *, can_stop: bool) -> str:
        sure = self._released(self._reader.finish(), can_stop=can_stop)
        return sure if self.found is not None else sure + self._text

    def _released(self, parts: Sequence[Part], *, can_stop: bool) -> str:
        """Returns what can be given out, now that the reader has decided more."""
        for part in parts:
            if isinstance(part, CallBegun):
                self._calls += 1
                self._forget()  # no stop string goes on behind a call
            elif isinstance(part, Content):
                self._places.append((self._find(part.text), len(part.text)))
                sure = super().push(part.text, can_stop=can_stop)
                self._said += len(sure)
                if self.found is not None:
                    return self._text[: self._end()]
                self._drop(len(sure))
            else:
                self._find(part.text)
        if parts and isinstance(parts[-1], CallBegun | CallArguments):
            self._skip_to(parts[-1])
        end = self._places[0][0] if self._places else self._read
        sure, self._text = self._text[:end], self._text[end:]
        self._read -= end
        self._places = [(at - end, length) for at, length in self._places]
        return sure

    def _find(self, text: str) -> int:
        """Moves on behind a part; returns where it begins, at the earliest."""
        at = self._text.find(text, self._read)
        if at < 0:
            return self._read  # it was written anew
        self._read = at + len(text)
        return at

    def _skip_to(self, part: CallBegun | CallArguments) -> None:
        """Moves on behind what has been read of a call."""
        text = part.name if isinstance(part, CallBegun) else part.text
        at = self._text.rfind(text, self._read)
        last = len(self._whole[-1]) if at < 0 else len(self._text) - at - len(text)
        self._read = max(self._read, len(self._text) - last)

    def _end(self) -> int:
        """Returns where in the text the content ends that the client is to see."""
        whole = "".join(self._whole)
        given = len(whole) - len(self._text)
        # One character more is the first of a stop string that is left out.
        wanted = self._said + (not self._include_stop)
        places = range(given, len(whole))
        shown_at = given + bisect_left(
            places, wanted, key=lambda end: self._read_again(whole[:end], ends=False)[0]
        )
        ends = shown_at == len(whole)
        surplus = self._read_again(whole[:shown_at], ends=ends)[0] - self._said
        latest = max(given, shown_at - surplus)
        for end in range(latest, max(given, latest - _MOST_TRIES) - 1, -1):
            if self._read_again(whole[:end], ends=True) == (self._said, self._calls):
                return end - given
        return latest - given

    def _read_again(self, text: str, *, ends: bool) -> tuple[int, int]:
        """Returns the length of a text's content, and the number of its calls."""
        reader = self._read_anew()
        parts = reader.push(text) + (reader.finish() if ends else [])
        content = sum(len(each.text) for each in parts if isinstance(each, Content))
        return content, sum(isinstance(each, CallBegun) for each in parts)

    def _drop(self, length: int) -> None:
        """Forgets the places of content that is no longer held back."""
        while length and self._places:
            at, size = self._places[0]
            if size > length:
                self._places[0] = (at + length, size - length)
                return
            length -= size
            del self._places[0]

    def _forget(self) -> None:
        self._said += len(self.held)
        self._places.clear()
        self._matched = [0] * len(self._stop)
        self.held = ""
