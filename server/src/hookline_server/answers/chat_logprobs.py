"""Log-probabilities in the shape of `/v1/chat/completions`."""

from collections.abc import Iterable

from hookline.request import TokenLogprobs
from hookline_server.answers.token_names import TokenNames, shown_logprob
from hookline_server.protocol.chat import ChatLogprobs, TokenLogprob, TopLogprob


def chat_logprobs(names: TokenNames, entries: Iterable[TokenLogprobs]) -> ChatLogprobs:
    """Returns one item per token; `bytes` shows parts of characters."""
    return ChatLogprobs([_token(names, entry) for entry in entries])


def _token(names: TokenNames, entry: TokenLogprobs) -> TokenLogprob:
    chosen, *likeliest = zip(entry.token_ids, entry.logprobs, strict=True)
    token_id, logprob = chosen
    return TokenLogprob(
        names.name(token_id),
        shown_logprob(logprob),
        list(names.bytes(token_id)),
        [_top(names, *one) for one in likeliest],
    )


def _top(names: TokenNames, token_id: int, logprob: float) -> TopLogprob:
    number = shown_logprob(logprob)
    return TopLogprob(names.name(token_id), number, list(names.bytes(token_id)))
