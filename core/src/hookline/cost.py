"""Estimates of a step's FLOPs and memory traffic from the model's shape.

The estimates follow the usual accounting (Kaplan et al. 2020, appendix B; Chowdhery et
al. 2022, appendix B): two operations per multiply-add of matrix products and attention.
Norms, activations and sampling are not counted; sliding-window layers count as if they
attended to the whole context.
"""

from collections.abc import Sequence

import msgspec

from hookline.events import StepRecord


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost per token, per attention pair and per step; all 0 if unknown.

    Attributes:
        flops_per_token: Matrix products of the layers, with active experts only.
        flops_per_pair: Attention of all layers, per query and key.
        flops_per_sample: The output layer, per position with logits.
        weight_bytes: Bytes of weights, read once per step.
        kv_bytes_per_token: Bytes of keys and values of all layers, per token.
    """

    flops_per_token: float = 0.0
    flops_per_pair: float = 0.0
    flops_per_sample: float = 0.0
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0

    def on_ranks(self, size: int) -> "ModelCost":
        """Returns the cost of as many ranks together, if this is the cost of one."""
        costs = msgspec.structs.asdict(self)
        return ModelCost(**{name: size * cost for name, cost in costs.items()})

    def flops(self, record: StepRecord) -> float:
        """Returns the floating-point operations of a step."""
        return (
            self.flops_per_token * record.work.tokens
            + self.flops_per_pair * record.work.attention_pairs
            + self.flops_per_sample
            * (record.sampled_requests + record.verified.draft_tokens)
        )

    def read_bytes(self, record: StepRecord) -> float:
        """Returns the bytes of weights, keys and values read in a step."""
        if not record.request_tokens:
            return 0.0
        return self.weight_bytes + self.kv_bytes_per_token * record.work.context_tokens

    def write_bytes(self, record: StepRecord) -> float:
        """Returns the bytes of keys and values written in a step."""
        return float(self.kv_bytes_per_token * record.work.tokens)


def sum_of_costs(parts: Sequence[ModelCost]) -> ModelCost:
    """Returns the cost of a model whose parts have these costs."""
    costs = [msgspec.structs.asdict(each) for each in parts]
    names = ModelCost.__struct_fields__
    return ModelCost(**{name: sum(each[name] for each in costs) for name in names})
