"""Log-probabilities in the shape of `/v1/completions`."""

from collections.abc import Sequence

from hookline.request import TokenLogprobs
from hookline_server.answers.token_names import TokenNames, shown_logprob
from hookline_server.protocol.completion import CompletionLogprobs


class CompletionLogprobsMaker:
    """Builds the lists, tracking the text offset of the next token."""

    def __init__(self, names: TokenNames) -> None:
        self._names = names
        self._offset = 0

    def make(
        self, token_ids: Sequence[int], entries: Sequence[TokenLogprobs | None]
    ) -> CompletionLogprobs:
        """Returns the tokens' lists; the first prompt token has no probability."""
        made = CompletionLogprobs([], [], [], [])
        for token_id, entry in zip(token_ids, entries, strict=True):
            made.tokens.append(self._names.name(token_id))
            logprob = None if entry is None else shown_logprob(entry.logprobs[0])
            made.token_logprobs.append(logprob)
            made.top_logprobs.append(None if entry is None else self._top(entry))
            made.text_offset.append(self._offset)
            self._offset += len(self._names.text(token_id))
        return made

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        top: dict[str, float] = {}
        for token_id, logprob in zip(entry.token_ids, entry.logprobs, strict=True):
            # Tokens may have the same text, such as parts of characters: the first
            # counts.
            top.setdefault(self._names.name(token_id), shown_logprob(logprob))
        return top


def joined(first: CompletionLogprobs, second: CompletionLogprobs) -> CompletionLogprobs:
    """Concatenates the lists of two token sequences."""
    return CompletionLogprobs(
        first.tokens + second.tokens,
        first.token_logprobs + second.token_logprobs,
        first.top_logprobs + second.top_logprobs,
        first.text_offset + second.text_offset,
    )
