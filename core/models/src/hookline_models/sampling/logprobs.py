"""Log-probabilities of sampled tokens and of prompts, and of likely alternatives."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.engine.worker.input_batch import InputBatch, StepInputs
from hookline.request import TokenLogprobs
from hookline_kernels.drawing import NEGATIVE_INFINITY

_PROMPT_ROWS = 256
"""Number of prompt tokens whose log-probabilities are in memory at a time."""


def log_probabilities(logits: torch.Tensor, *, allows: bool) -> torch.Tensor:
    """Returns those of each row, [R, vocabulary]; not-a-numbers where there are none.

    If that is allowed, no token is likely there.
    """
    found = logits.log_softmax(-1)
    return found.nan_to_num_(*[NEGATIVE_INFINITY] * 3) if allows else found


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


def prompt_logprobs(
    batch: InputBatch,
    inputs: StepInputs,
    prompts: Sequence[tuple[int, int, int]],
    logits: torch.Tensor,
    *,
    allows: bool,
) -> dict[int, list[TokenLogprobs]]:
    """Log-probabilities of each prompt token that follows a computed one.

    `allows` is as in `log_probabilities`.
    """
    found = {}
    for index, start, end in prompts:
        row = int(inputs.rows[index])
        params = batch.params[row]
        assert params is not None
        assert params.prompt_logprobs is not None
        first = int(batch.num_computed[row]) + 1
        tokens = batch.token_ids[row, first : first + end - start]
        device_tokens = torch.from_numpy(tokens.astype(np.int64)).to(logits.device)
        entries: list[TokenLogprobs] = []
        for part, part_tokens in zip(
            logits[start:end].split(_PROMPT_ROWS),
            device_tokens.split(_PROMPT_ROWS),
            strict=True,
        ):
            entries += top_logprobs(
                log_probabilities(part.float(), allows=allows),
                part_tokens,
                [params.prompt_logprobs] * len(part),
            )
        found[batch.request_ids[row]] = entries
    return found
