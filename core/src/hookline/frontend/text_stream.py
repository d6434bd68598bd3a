"""The text of a completion as it is generated, cut at stop strings."""

from collections.abc import Sequence

from hookline.frontend.detokenizer import Detokenizer, make_detokenizer
from hookline.request import GenerateRequest
from hookline.tokenizer import Tokenizer


class StopString:
    """Matches one string in linear time (Knuth, Morris & Pratt 1977); immutable.

    Attributes:
        text: The string.
    """

    __slots__ = ("_borders", "text")

    def __init__(self, text: str) -> None:
        """Prepares the search for a text that is not empty."""
        self.text = text
        self._borders = [0]
        matched = 0
        for char in text[1:]:
            matched = self._next(matched, char)
            self._borders.append(matched)

    def search(self, matched: int, piece: str) -> tuple[int, int | None]:
        """Searches the next piece of a text.

        Args:
            matched: Length of the string's beginning with which the text before ends; 0
                at first.
            piece: The next piece.

        Returns:
            `matched` for the next piece, and where in this one the string's first
            occurrence ends; None if there is none.
        """
        if not matched and self.text[0] not in piece:
            return 0, None
        end = None
        for place, char in enumerate(piece, 1):
            matched = self._next(matched, char)
            if matched == len(self.text):
                end = end or place
                matched = self._borders[-1]
        return matched, end

    def _next(self, matched: int, char: str) -> int:
        while matched and self.text[matched] != char:
            matched = self._borders[matched - 1]
        return matched + (self.text[matched] == char)


class TextStream:
    """Turns tokens into text, and holds back what may be part of a stop string.

    Attributes:
        stop_reason: The stop string that ended the text; None if none has.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        stop: Sequence[StopString],
        *,
        include_stop: bool,
        min_tokens: int,
    ) -> None:
        self._detokenizer = detokenizer
        self._stop = stop
        self._include_stop = include_stop
        self._min_tokens = min_tokens
        self._matched = [0] * len(stop)
        self._held = ""
        self._num_tokens = 0
        self.stop_reason: str | None = None

    def push(self, token_ids: Sequence[int]) -> str:
        """Adds tokens and returns new text that later tokens cannot change."""
        if not self._stop:
            return self._detokenizer.push(token_ids)
        early = max(0, self._min_tokens - 1 - self._num_tokens)
        self._num_tokens += len(token_ids)
        text = ""
        if early:
            new = self._detokenizer.push(token_ids[:early])
            text = self._take(new, can_stop=False)
        new = self._detokenizer.push(token_ids[early:])
        return text + self._take(new, can_stop=self._num_tokens >= self._min_tokens)

    def flush(self) -> str:
        """Returns the rest of the text; call it when the request has ended."""
        new = self._detokenizer.flush()
        text = self._take(new, can_stop=self._num_tokens >= self._min_tokens)
        if self.stop_reason is None:
            text += self._held
        self._held = ""
        return text

    def _take(self, new: str, *, can_stop: bool) -> str:
        if not self._stop or self.stop_reason is not None:
            return new if self.stop_reason is None else ""
        old, text = len(self._held), self._held + new
        hits = self._search(new)
        if hits and can_stop:
            start, self.stop_reason = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
            start += old
            end = start + len(self.stop_reason) if self._include_stop else start
            self._held = ""
            return text[:end]
        kept = max(self._matched)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def _search(self, new: str) -> list[tuple[int, str]]:
        """Returns where stop strings that end in the new text begin in it.

        The number is negative if a string begins in the held text.
        """
        hits = []
        for index, stop in enumerate(self._stop):
            self._matched[index], end = stop.search(self._matched[index], new)
            if end is not None:
                hits.append((end - len(stop.text), stop.text))
        return hits


def make_text_streams(
    tokenizer: Tokenizer, request: GenerateRequest
) -> list[TextStream]:
    """Makes the text streams of a request's completions."""
    params, streams = request.params, []
    stop = list(map(StopString, params.stop))
    for _ in range(params.n):
        detokenizer = make_detokenizer(
            tokenizer,
            request.prompt_token_ids,
            skip_special_tokens=params.skip_special_tokens,
        )
        stream = TextStream(
            detokenizer,
            stop,
            include_stop=params.include_stop_str_in_output,
            min_tokens=params.min_tokens,
        )
        streams.append(stream)
    return streams
