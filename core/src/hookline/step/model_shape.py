"""The facts of a model that the core needs to schedule it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from hookline.cost import ModelCost, sum_of_costs
from hookline.sections import Sections


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The facts of a model that the core needs to schedule it; plain data.

    Attributes:
        architecture: Name of the model's class.
        dtype: Data type of weights.
        cache_dtype: Data type of the KV cache.
        vocab_size: Number of token ids.
        max_model_len: Context length in tokens.
        num_kv_blocks: Number of blocks in the KV cache; 0 before there is one.
        eos_token_ids: Tokens that end a text.
        cost: FLOPs and bytes of its steps; all zeros for a simulated model.
        kernels: Kernels in use, with the reason for each that is not the fastest; empty
            for a simulated model.
        isa: Tier of instructions of the CPU's kernels, such as `avx512`; empty without
            such kernels.
        kv_cache_spec_kind: What the KV cache holds: `full_attention`, or
            `mla_attention` for latents.
        sliding_window: Maximum number of tokens that layers with a sliding window
            attend to; None without such layers. The cache keeps all tokens.
        rank_sections: What extensions tell of each rank, by rank.
    """

    architecture: str
    dtype: str
    cache_dtype: str
    vocab_size: int
    max_model_len: int
    eos_token_ids: tuple[int, ...]
    num_kv_blocks: int = 0
    cost: ModelCost = field(default_factory=ModelCost)
    kernels: str = ""
    isa: str = ""
    kv_cache_spec_kind: str = "full_attention"
    sliding_window: int | None = None
    rank_sections: tuple[Sections, ...] = ()

    def of_ranks(self, ranks: Sequence[Self], tensor_parallel_size: int) -> Self:
        """Returns the whole model's shape, if this is that of the output rank.

        Args:
            ranks: The shapes of all ranks.
            tensor_parallel_size: Number of ranks of each pipeline stage.
        """
        stages = ranks[::tensor_parallel_size]
        windows = [each.sliding_window for each in stages if each.sliding_window]
        return replace(
            self,
            cost=sum_of_costs([each.cost for each in stages]),
            sliding_window=max(windows, default=None),
            rank_sections=tuple(one for each in ranks for one in each.rank_sections),
        )
