"""Log-probabilities in the shape of `/v1/chat/completions`."""

from collections.abc import Iterable

from hookline.request import TokenLogprobs
from hookline_server.engine import ServingEngine
from hookline_server.protocol.chat import ChatLogprobs, TokenLogprob, TopLogprob


def chat_logprobs(
    engine: ServingEngine, entries: Iterable[TokenLogprobs]
) -> ChatLogprobs:
    """Returns one item per token; `bytes` shows parts of characters."""
    return ChatLogprobs([_token(engine, entry) for entry in entries])


def _token(engine: ServingEngine, entry: TokenLogprobs) -> TokenLogprob:
    chosen, *likeliest = zip(entry.token_ids, entry.logprobs, strict=True)
    token_id, logprob = chosen
    return TokenLogprob(
        engine.token_text(token_id),
        logprob,
        list(engine.token_bytes(token_id)),
        [_top(engine, *one) for one in likeliest],
    )


def _top(engine: ServingEngine, token_id: int, logprob: float) -> TopLogprob:
    return TopLogprob(
        engine.token_text(token_id), logprob, list(engine.token_bytes(token_id))
    )
