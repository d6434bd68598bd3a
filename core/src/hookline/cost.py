"""What a step costs the machine, estimated from the model's shape and the step's size.

The estimates follow the usual accounting (Kaplan et al. 2020, appendix B; Chowdhery et
al. 2022, appendix B): two operations for each multiply-add of a matrix product and of
attention. Norms, activations and sampling are left out; a layer with a sliding window
counts as if it saw all of the context.
"""

import msgspec

from hookline.events import StepRecord


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one token, one pair of tokens and one step cost; all 0 where unknown.

    Attributes:
        flops_per_token: Matrix products of the layers, active experts only.
        flops_per_pair: Attention of all layers, for a query and a key.
        flops_per_sample: The output layer, for a position whose logits are wanted.
        weight_bytes: Read once a step.
        kv_bytes_per_token: K and V of all layers.
    """

    flops_per_token: float = 0.0
    flops_per_pair: float = 0.0
    flops_per_sample: float = 0.0
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0

    def flops(self, record: StepRecord) -> float:
        """Floating-point operations of a step."""
        return (
            self.flops_per_token * (record.prefill_tokens + record.decode_tokens)
            + self.flops_per_pair * record.attention_pairs
            + self.flops_per_sample * (record.sampled_requests + record.draft_tokens)
        )

    def read_bytes(self, record: StepRecord) -> float:
        """Weights, and the K and V of the context, read in a step."""
        if not record.request_tokens:
            return 0.0
        return self.weight_bytes + self.kv_bytes_per_token * record.context_tokens

    def write_bytes(self, record: StepRecord) -> float:
        """K and V written in a step."""
        tokens = record.prefill_tokens + record.decode_tokens
        return float(self.kv_bytes_per_token * tokens)
