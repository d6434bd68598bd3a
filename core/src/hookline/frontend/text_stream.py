"""The text of a completion as it is generated, cut at stop strings."""

from collections.abc import Sequence

from hookline.frontend.detokenizer import Detokenizer, make_detokenizer
from hookline.frontend.input_processor import PreparedRequest
from hookline.tokenizer import Tokenizer


class TextStream:
    """Turns tokens into text, and holds back what may be part of a stop string.

    Attributes:
        stop_reason: The stop string that ended the text; None if none has.
    """

    def __init__(
        self,
        detokenizer: Detokenizer,
        stop: Sequence[str],
        *,
        include_stop: bool,
        min_tokens: int,
    ) -> None:
        self._detokenizer = detokenizer
        self._stop = stop
        self._include_stop = include_stop
        self._min_tokens = min_tokens
        self._longest = max((len(word) for word in stop), default=0)
        self._held = ""
        self._num_tokens = 0
        self.stop_reason: str | None = None

    def push(self, token_ids: Sequence[int]) -> str:
        """Adds tokens and returns new text that later tokens cannot change."""
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
        hits = self._hits(text, old) if can_stop else []
        if hits:
            start, self.stop_reason = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
            end = start + len(self.stop_reason) if self._include_stop else start
            self._held = ""
            return text[:end]
        kept = self._longest_partial(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def _hits(self, text: str, old: int) -> list[tuple[int, str]]:
        """Positions of the stop strings that end in the text after `old` characters."""
        found = [
            (text.find(word, max(0, old - len(word) + 1)), word) for word in self._stop
        ]
        return [(start, word) for start, word in found if start >= 0]

    def _longest_partial(self, text: str) -> int:
        """Length of the longest suffix of the text that may begin a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(word.startswith(end) for word in self._stop):
                return length
        return 0


def make_text_stream(tokenizer: Tokenizer, prepared: PreparedRequest) -> TextStream:
    """Makes the text stream of a completion of a request."""
    params = prepared.params
    detokenizer = make_detokenizer(
        tokenizer,
        prepared.prompt_token_ids,
        skip_special_tokens=params.skip_special_tokens,
    )
    return TextStream(
        detokenizer,
        params.stop,
        include_stop=params.include_stop_str_in_output,
        min_tokens=params.min_tokens,
    )
