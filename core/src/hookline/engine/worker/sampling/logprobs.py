"""Log-probabilities of sampled tokens and of prompts, and of likely alternatives."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from hookline.engine.worker.input_batch import InputBatch, Int64, StepInputs
from hookline.finish_cause import Corrupted
from hookline.request import Origin, TokenLogprobs
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


def corrupted_prompts(
    scores: Mapping[int, Sequence[TokenLogprobs]],
) -> dict[int, Corrupted]:
    """Returns causes by id of requests whose prompts have no log-probabilities."""
    cause = Corrupted.logits(Origin.MODEL)
    return {
        request_id: cause
        for request_id, entries in scores.items()
        if any(math.isnan(each.logprobs[0]) for each in entries)
    }


def logits_indices(
    batch: InputBatch, inputs: StepInputs
) -> tuple[Int64, list[tuple[int, int, int]]]:
    """Indices of the tokens whose logits are needed: samples first, then prompts.

    Returns:
        The indices, and for each request with prompt logprobs (its index in the
        step, start and end of its part behind the samples).
    """
    parts, prompts = [inputs.samples.indices], []
    end = len(inputs.samples.indices)
    for index, row in enumerate(inputs.rows.tolist()):
        if row not in batch.scored_rows:
            continue
        computed = int(batch.num_computed[row])
        known = int(batch.num_prompt_tokens[row]) - 1 - computed
        count = min(int(inputs.query_lens[index]), known)
        if count > 0:
            first = int(inputs.query_starts[index])
            parts.append(np.arange(first, first + count))
            prompts.append((index, end, end + count))
            end += count
    return np.concatenate(parts), prompts


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
