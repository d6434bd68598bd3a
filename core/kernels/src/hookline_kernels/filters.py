"""Top-k, top-p and min-p."""

import torch

NEGATIVE_INFINITY = float("-inf")


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
