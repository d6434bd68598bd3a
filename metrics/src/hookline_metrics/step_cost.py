"""Estimates of a step's FLOPs and memory traffic from the model's cost.

The estimates follow the usual accounting (Kaplan et al. 2020, appendix B; Chowdhery et
al. 2022, appendix B): two operations per multiply-add of matrix products and attention.
Norms, activations and sampling are not counted; sliding-window layers count as if they
attended to the whole context.
"""

from hookline.events import StepRecord
from hookline.step import ModelCost


def flops(cost: ModelCost, record: StepRecord) -> float:
    """Returns the floating-point operations of a step."""
    return (
        cost.flops_per_token * record.work.tokens
        + cost.flops_per_pair * record.work.attention_pairs
        + cost.flops_per_sample
        * (record.sampled_requests + record.verified.draft_tokens)
    )


def read_bytes(cost: ModelCost, record: StepRecord) -> float:
    """Returns the bytes of weights, keys and values read in a step."""
    if not record.request_tokens:
        return 0.0
    return cost.weight_bytes + cost.kv_bytes_per_token * record.work.context_tokens


def write_bytes(cost: ModelCost, record: StepRecord) -> float:
    """Returns the bytes of keys and values written in a step."""
    return float(cost.kv_bytes_per_token * record.work.tokens)
