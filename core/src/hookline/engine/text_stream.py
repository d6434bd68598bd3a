"""One completion's text as it grows: stop strings end it, and are kept back in part."""

from collections.abc import Sequence

from hookline.engine.detokenizer import Detokenizer


class TextStream:
    """Feeds tokens in, takes text out that no later token can change.

    Attributes:
        stop_reason: The stop string that ended the text, if one did.
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
        """Text that has become certain; `stop_reason` is set when it is the last."""
        self._num_tokens += len(token_ids)
        return self._take(self._detokenizer.push(token_ids))

    def flush(self) -> str:
        """The rest of the text; the request ended by itself."""
        text = self._take(self._detokenizer.flush())
        if self.stop_reason is None:
            text += self._held
        self._held = ""
        return text

    def _take(self, new: str) -> str:
        if not self._stop or self.stop_reason is not None:
            return new if self.stop_reason is None else ""
        text = self._held + new
        if self._num_tokens < self._min_tokens:
            self._held = ""
            return text
        hits = [(text.find(word), word) for word in self._stop if word in text]
        if hits:
            start, self.stop_reason = min(hits, key=lambda hit: (hit[0], -len(hit[1])))
            end = start + len(self.stop_reason) if self._include_stop else start
            self._held = ""
            return text[:end]
        kept = self._longest_partial(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def _longest_partial(self, text: str) -> int:
        """Length of the longest end of the text that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-length:]
            if any(word.startswith(end) for word in self._stop):
                return length
        return 0
