"""Log-probabilities in the shape of `/v1/chat/completions`."""

from collections.abc import Iterable

from hookline.request import TokenLogprobs
from hookline_server.answers.token_names import TokenNames
from hookline_server.protocol.chat import ChatLogprobs, TokenLogprob, TopLogprob


def chat_logprobs(names: TokenNames, entries: Iterable[TokenLogprobs]) -> ChatLogprobs:
    """Returns one item per token; `bytes` shows parts of characters."""
    return ChatLogprobs([_token(names, entry) for entry in entries])


def _token(names: TokenNames, entry: TokenLogprobs) -> TokenLogprob:
    chosen, *likeliest = zip(entry.token_ids, entry.logprobs, strict=True)
    token_id, logprob = chosen
    return TokenLogprob(
        names.name(token_id),
        logprob,
        list(names.bytes(token_id)),
        [_top(names, *one) for one in likeliest],
    )


def _top(names: TokenNames, token_id: int, logprob: float) -> TopLogprob:
    return TopLogprob(names.name(token_id), logprob, list(names.bytes(token_id)))
