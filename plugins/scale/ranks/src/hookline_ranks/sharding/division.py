"""Divides a model's configuration among ranks."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedConfig

from hookline.exceptions import ConfigError
from hookline_ranks.experts.expert_placement import (
    ExpertPlace,
    OwnedExperts,
    experts_of_rank,
)
from hookline_ranks.sharding.families import FAMILIES, Family, Heads
from hookline_ranks.sharding.plan import ShardingPlan
from hookline_ranks.sharding.split import rows_of_rank, units_of

OPTION = "tensor-parallel-size"
_WIDTHS = (
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
)
"""Sizes of feed-forward layers, which ranks divide."""
_KV_HEADS = ("num_key_value_heads", "num_kv_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a model is divided, as one rank sees it.

    Attributes:
        family: The model's family.
        plan: What this rank reads.
        heads: The whole model's.
        vocab_size: Number of token ids of the whole model.
        experts: The experts that this rank has whole; None if it has a part of each.
    """

    family: Family
    plan: ShardingPlan
    heads: Heads
    vocab_size: int
    experts: OwnedExperts | None = None

    @property
    def num_rows(self) -> int:
        """Rows of this rank's embedding and output layer, padding included."""
        return rows_of_rank(self.vocab_size, self.plan.size)


def divide(
    config: PreTrainedConfig,
    *,
    rank: int = 0,
    size: int = 1,
    experts: ExpertPlace | None = None,
) -> Division:
    """Plans one rank's part of a model.

    Args:
        config: The whole model's; becomes this rank's if the family's modules can be
            made from it.
        rank: Index of the rank among those that share each layer.
        size: Number of these ranks.
        experts: The rank's place among those of which each has some experts whole; None
            if each has a part of every expert.

    Raises:
        ConfigError: The family cannot be divided, or not among as many ranks.
    """
    text = config.get_text_config()
    family = FAMILIES.get(text.model_type)
    if family is None:
        raise ConfigError(
            OPTION,
            f"models of type {text.model_type} cannot be divided among ranks; those of "
            f"{', '.join(sorted(FAMILIES))} can",
        )
    queries, keys = text.num_attention_heads, _kv_heads(text)
    heads = Heads(size=size, queries=queries, keys=keys)
    owned = None if experts is None else experts_of_rank(text, experts)
    try:
        _check(text, heads, widths=_WIDTHS if owned is None else ())
        plan = ShardingPlan(
            rank=rank,
            size=size,
            splits=family.splits(text, heads),
            experts=None if owned is None else owned.own,
        )
    except ValueError as error:
        reason = f"{error} (a model of type {text.model_type})"
        raise ConfigError(OPTION, reason) from error
    division = Division(
        family=family,
        plan=plan,
        heads=heads,
        vocab_size=text.vocab_size,
        experts=owned,
    )
    if not family.is_resized:
        _make_smaller(text, division)
    return division


def _kv_heads(text: PreTrainedConfig) -> int:
    if text.model_type == "falcon" and not text.new_decoder_architecture:
        return 1 if text.multi_query else int(text.num_attention_heads)
    found = (getattr(text, name, None) for name in _KV_HEADS)
    return int(next((each for each in found if each), text.num_attention_heads))


def _check(text: PreTrainedConfig, heads: Heads, *, widths: Sequence[str]) -> None:
    """Raises `ValueError` if the ranks cannot divide heads or feed-forward layers.

    A width may be that of experts alone. If they are whole, another layer that has it
    is found when its weights are cut.
    """
    if heads.queries % heads.size:
        raise ValueError(
            f"{heads.size} ranks cannot divide {heads.queries} attention heads"
        )
    units_of(heads.keys, 0, heads.size)
    for name in widths:
        width = getattr(text, name, None)
        if isinstance(width, int) and width % heads.size:
            raise ValueError(f"{heads.size} ranks cannot divide {name}, {width}")


def _make_smaller(text: PreTrainedConfig, division: Division) -> None:
    """Changes the sizes in a configuration to those of one rank."""
    heads, size = division.heads, division.plan.size
    if getattr(text, "head_dim", None) is None:
        text.head_dim = text.hidden_size // heads.queries
    text.num_attention_heads = heads.queries // size
    if hasattr(text, "num_key_value_heads"):
        text.num_key_value_heads = units_of(heads.keys, 0, size)[1]
    for name in _WIDTHS:
        if isinstance(width := getattr(text, name, None), int):
            setattr(text, name, width // size)
    text.vocab_size = division.num_rows
    text.pad_token_id = None  # may be another rank's
