"""Log-probabilities of tokens and of the likeliest alternatives."""

import torch

from hookline.request import TokenLogprobs


def top_logprobs(
    logprobs: torch.Tensor, token_ids: torch.Tensor, counts: list[int]
) -> list[TokenLogprobs]:
    """Returns each row's own token and its `count` likeliest, with log-probabilities.

    Args:
        logprobs: [R, vocabulary].
        token_ids: [R] int64 on the same device.
        counts: R numbers of alternatives.
    """
    own = logprobs.gather(1, token_ids[:, None])
    ranks = (logprobs > own).sum(-1).add_(1).tolist()
    best = logprobs.topk(max(*counts, 1), dim=-1)
    return [
        TokenLogprobs([token, *ids[:count]], [mine, *values[:count]], rank)
        for token, mine, ids, values, rank, count in zip(
            token_ids.tolist(),
            own[:, 0].tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            ranks,
            counts,
            strict=True,
        )
    ]
