"""Looks for stop strings only in what a reply says to the client."""

from collections.abc import Callable, Iterable, Sequence

from hookline.frontend.text_stream import StopSearch
from hookline_server.replies.reply_reader import ReplyReader
from hookline_server.reply_parsing.parts import CallArguments, CallBegun, Content, Part


class AnswerStops(StopSearch):
    """A search in the content of a reply, and neither in its reasoning nor in calls.

    Text is given out as the model wrote it, but only up to where the parsers have
    decided what it is: what is undecided may become content, and the end of it a stop
    string.
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
        self._reader = make_reader() or ReplyReader(None, None)
        self._text = ""
        self._read = 0
        self._places: list[tuple[int, int]] = []

    def push(self, new: str, *, can_stop: bool) -> str:
        self._text += new
        return self._released(self._reader.push(new), can_stop=can_stop)

    def flush(self, *, can_stop: bool) -> str:
        sure = self._released(self._reader.finish(), can_stop=can_stop)
        return sure if self.found is not None else sure + self._text

    def _released(self, parts: Sequence[Part], *, can_stop: bool) -> str:
        """Returns what can be given out, now that the reader has decided more."""
        for part in parts:
            if isinstance(part, CallBegun):
                self._forget()  # no stop string goes on behind a call
            elif isinstance(part, Content):
                self._find(part.text)
                self._places.append((self._read - len(part.text), len(part.text)))
                sure = super().push(part.text, can_stop=can_stop)
                if self.found is not None:
                    return self._text[: self._place(len(sure))]
                self._drop(len(sure))
            else:
                self._find(part.text)
        if parts and isinstance(parts[-1], CallBegun | CallArguments):
            self._read = len(self._text)
        end = self._places[0][0] if self._places else self._read
        sure, self._text = self._text[:end], self._text[end:]
        self._read -= end
        self._places = [(at - end, length) for at, length in self._places]
        return sure

    def _find(self, text: str) -> None:
        """Moves on behind a part; one that was written anew begins where it may."""
        at = self._text.find(text, self._read)
        at = self._read if at < 0 else at
        self._read = min(at + len(text), len(self._text))

    def _place(self, length: int) -> int:
        """Returns where so much of the content that was held back ends in the text."""
        for at, size in self._places:
            if length <= size:
                return at + length
            length -= size
        return len(self._text)

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
        self._places.clear()
        self._matched = [0] * len(self._stop)
        self.held = ""
