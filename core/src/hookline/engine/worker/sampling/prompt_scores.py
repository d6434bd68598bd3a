"""Which prompt tokens of a step get log-probabilities, and which have none."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hookline.engine.worker.input_batch import InputBatch, Int64, StepInputs
from hookline.finish_cause import Corrupted
from hookline.request import Origin, TokenLogprobs


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
