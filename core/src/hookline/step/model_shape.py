"""What the core must know of a model to schedule it."""

from dataclasses import dataclass, field

from hookline.cost import ModelCost
from hookline.kv_transfer.layout import KVLayout
from hookline.spec_decode.tree import DraftTree


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What the core must know of a model to schedule it.

    Attributes:
        architecture: The model's class.
        dtype: Of weights and KV cache.
        vocab_size: Number of token ids.
        max_model_len: Context length in tokens.
        num_kv_blocks: Blocks that its KV cache holds.
        eos_token_ids: Tokens that end its texts.
        cost: What its steps cost; a model that only pretends costs nothing.
        kernels: What computes them, and why not what is quicker; empty if nothing does.
        draft_tree: The form of drafts; None if they are chains, or if there are none.
        kv_layout: What its KV blocks are, if a connector moves them.
    """

    architecture: str
    dtype: str
    vocab_size: int
    max_model_len: int
    num_kv_blocks: int
    eos_token_ids: tuple[int, ...]
    cost: ModelCost = field(default_factory=ModelCost)
    kernels: str = ""
    draft_tree: DraftTree | None = None
    kv_layout: KVLayout | None = None
