"""What responses say of a prompt's tokens: their ids and log-probabilities."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.outputs import RequestOutput
from hookline.request import TokenLogprobs
from hookline_server.answers.slices import SLICE_TOKENS, Turns
from hookline_server.answers.token_names import shown_logprob
from hookline_server.engine import ServingEngine
from hookline_server.protocol.prompt_logprobs import PromptLogprob


def raw_token_ids(token_ids: Sequence[int]) -> Raw:
    """Returns token ids as JSON, which several messages can share."""
    return Raw(msgspec.json.encode(token_ids))


async def sliced_prompt_logprobs(
    engine: ServingEngine, output: RequestOutput, count: int | None, turns: Turns
) -> Raw | UnsetType:
    """Returns one object per prompt token, keyed by token ids, and null for the first.

    Args:
        engine: Knows the tokens' texts.
        output: The output with the log-probabilities of its prompt.
        count: Number of likeliest tokens beside the prompt's own; None if the client
            did not request any.
        turns: Others get their turns between slices.
    """
    if count is None:
        return UNSET
    entries = output.prompt_logprobs or ()
    pieces = [b"null"]
    for start in range(0, len(entries), SLICE_TOKENS):
        part = [
            _position(engine, entry, count)
            for entry in entries[start : start + SLICE_TOKENS]
        ]
        pieces.append(msgspec.json.encode(part)[1:-1])
        await turns.took(len(part))
    return Raw(b"[" + b",".join(pieces) + b"]")


def _position(
    engine: ServingEngine, entry: TokenLogprobs, count: int
) -> dict[int, PromptLogprob]:
    # The first entry is the prompt's own token, which may be among the others.
    ranks = (entry.rank, *range(1, count + 1))
    found: dict[int, PromptLogprob] = {}
    for token_id, logprob, rank in zip(
        entry.token_ids, entry.logprobs, ranks, strict=False
    ):
        if token_id not in found:
            text = engine.texts.token_text(token_id)
            found[token_id] = PromptLogprob(shown_logprob(logprob), rank, text)
    return found
