"""The text of a completion as it is generated, cut at stop strings."""

from collections.abc import Sequence

from hookline.frontend.detokenizer import Detokenizer, make_detokenizer
from hookline.frontend.stop_strings import StopScope, StopSearch
from hookline.request import GenerateRequest
from hookline.tokenizer import Tokenizer


class TextStream:
    """Turns tokens into text, and holds back what may be part of a stop string.

    Attributes:
        stop_reason: The stop string that ended the text; None if none has.
    """

    def __init__(
        self, detokenizer: Detokenizer, search: StopSearch | None, *, min_tokens: int
    ) -> None:
        self._detokenizer = detokenizer
        self._search = search
        self._min_tokens = min_tokens
        self._num_tokens = 0
        self.stop_reason: str | None = None

    def push(self, token_ids: Sequence[int]) -> str:
        """Adds tokens and returns new text that later tokens cannot change."""
        if self._search is None:
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
        can_stop = self._num_tokens >= self._min_tokens
        text = self._take(self._detokenizer.flush(), can_stop=can_stop)
        if self._search is not None and self.stop_reason is None:
            text += self._search.flush(can_stop=can_stop)
            self.stop_reason = self._search.found
        return text

    def _take(self, new: str, *, can_stop: bool) -> str:
        if self._search is None or self.stop_reason is not None:
            return new if self._search is None else ""
        text = self._search.push(new, can_stop=can_stop)
        self.stop_reason = self._search.found
        return text


def make_text_streams(
    tokenizer: Tokenizer, request: GenerateRequest, scope: StopScope = StopSearch
) -> list[TextStream]:
    """Makes the text streams of a request's completions."""
    params, streams = request.params, []
    for _ in range(params.n):
        detokenizer = make_detokenizer(
            tokenizer,
            request.prompt_token_ids,
            skip_special_tokens=params.skip_special_tokens,
        )
        search = None
        if params.stop:
            search = scope(params.stop, include_stop=params.include_stop_str_in_output)
        streams.append(TextStream(detokenizer, search, min_tokens=params.min_tokens))
    return streams
