"""Log-probabilities of prompt tokens: where logits are needed, and what they say."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.request import TokenLogprobs
from hookline.worker.input_batch import InputBatch, Int64, StepInputs
from hookline.worker.sampling.logprobs import top_logprobs

_PROMPT_ROWS = 256
"""Number of prompt tokens whose log-probabilities are in memory at a time."""


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
        params = batch.params[row]
        if params is None or params.prompt_logprobs is None:
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
) -> dict[int, list[TokenLogprobs]]:
    """Log-probabilities of each prompt token that follows a computed one."""
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
                part.float().log_softmax(-1),
                part_tokens,
                [params.prompt_logprobs] * len(part),
            )
        found[batch.request_ids[row]] = entries
    return found
