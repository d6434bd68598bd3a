"""How a token is drawn, in plain torch: filters, random numbers and inversion.

A number depends on a request's seed and position, and on nothing else.
"""

import numpy as np
import numpy.typing as npt
import torch

NEGATIVE_INFINITY = float("-inf")
NO_TOKEN = -1
"""In place of a token that cannot be drawn, because there is no distribution."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def keep_likeliest(
    logits: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Sets logits that a filter drops to −∞; equally likely tokens stay together.

    Args:
        logits: [R, vocabulary], divided by the temperature.
        top_k: [R] int64; the vocabulary's size disables it.
        top_p: [R] float32; 1 disables it.
        min_p: [R] float32; 0 disables it.
    """
    vocab_size = logits.shape[-1]
    threshold = logits.new_full((len(logits), 1), NEGATIVE_INFINITY)
    if bool((min_p > 0).any()):
        threshold = logits.max(-1, keepdim=True).values + min_p.log()[:, None]
    uses_top_p = bool((top_p < 1).any())
    if uses_top_p or bool((top_k < vocab_size).any()):
        width = vocab_size if uses_top_p else int(top_k[top_k < vocab_size].max())
        ordered = logits.topk(width, dim=-1).values
        last = (top_k.clamp(max=width) - 1)[:, None]
        floor = ordered.gather(1, last)
        floor = torch.where((top_k < vocab_size)[:, None], floor, NEGATIVE_INFINITY)
        if uses_top_p:
            beyond = torch.arange(width, device=logits.device)[None, :] > last
            mass = ordered.masked_fill(beyond, NEGATIVE_INFINITY).softmax(-1)
            before = mass.cumsum(-1) - mass
            kept = (before < top_p[:, None]) & ~beyond
            nucleus = ordered.gather(1, kept.sum(-1, keepdim=True) - 1)
            is_on = (top_p < 1)[:, None]
            floor = torch.where(is_on, torch.maximum(floor, nucleus), floor)
        threshold = torch.maximum(threshold, floor)
    return logits.masked_fill(logits < threshold, NEGATIVE_INFINITY)


def invert_distribution(
    probabilities: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """Returns the token at which each cumulative distribution passes its point.

    Args:
        probabilities: [R, vocabulary]; a token with probability 0 is never returned.
        points: [R] in [0, 1).

    Returns:
        [R] int64; `NO_TOKEN` where all probabilities are 0.
    """
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    totals = cumulative[:, -1:].contiguous()
    found = torch.searchsorted(cumulative, points[:, None] * totals, right=True)
    # A point may round up to the total: take the last possible token.
    last = torch.searchsorted(cumulative, totals)
    return torch.minimum(found, last).masked_fill_(totals == 0, NO_TOKEN)[:, 0]


def split_mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's output function (Steele et al. 2014), element by element."""
    with np.errstate(over="ignore"):
        values = values + _GOLDEN
        values = (values ^ (values >> np.uint64(30))) * _MIX_1
        values = (values ^ (values >> np.uint64(27))) * _MIX_2
        return values ^ (values >> np.uint64(31))


def uniforms(
    seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """One number in [0, 1) for each (seed, position): counter-based, so stateless."""
    mixed = split_mix(split_mix(seeds) ^ positions.astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
