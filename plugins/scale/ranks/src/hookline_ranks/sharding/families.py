"""Which modules of which families are divided among ranks, and how.

Most families are divided by their own plan in `transformers`; here is what these plans
leave whole, and the families that have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from transformers import PreTrainedConfig

from hookline_ranks.sharding.split import INPUTS, OUTPUTS, Split

Splits = Mapping[str, Split]
"""By path within a layer, of a module or of a single parameter; `*` is an expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Numbers that a configuration has, and that ranks divide.

    Attributes:
        size: Number of ranks.
        queries: Query heads of a layer.
        keys: KV heads of a layer.
    """

    size: int
    queries: int
    keys: int

    @property
    def fused(self) -> tuple[int, int, int]:
        """Queries, keys and values one after another in one weight."""
        return self.queries, self.keys, self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How ranks divide the layers of a family.

    Attributes:
        splits: Makes the splits of a model of it.
        summed: Modules within a layer whose results are summed over ranks.
        is_resized: Its modules take their sizes from the model's width, so that they
            are cut after they are made; others are made from a smaller configuration.
    """

    splits: Callable[[PreTrainedConfig, Heads], Splits]
    summed: tuple[str, ...] = ("self_attn.o_proj", "mlp")
    is_resized: bool = False


_EXPERT_BLOCKS = ("mlp", "block_sparse_moe")
_GATE_AND_UP, _DOWN = ("gate_proj", "up_proj", "w1", "w3"), ("down_proj", "w2")
"""Names of single experts' weights in files; in models they are joined."""


def _planned(config: PreTrainedConfig, heads: Heads) -> Splits:
    """Follows the family's own plan."""
    plan = config.base_model_tp_plan or {}
    paths = {pattern.removeprefix("layers.*."): plan[pattern] for pattern in plan}
    styled = {path: _styled(path, style, heads) for path, style in paths.items()}
    found = {path: split for path, split in styled.items() if split is not None}
    if "mlp.experts.down_proj" in found:
        found |= _experts()
    return found


def _experts() -> Splits:
    """Single experts, and those that all tokens share, which some plans leave whole."""
    down = Split(dim=INPUTS, is_summed=True)
    parents = [f"{block}.experts.*" for block in _EXPERT_BLOCKS]
    return {
        f"{parent}.{name}": split
        for parent in (*parents, "mlp.shared_expert", "mlp.shared_experts")
        for names, split in ((_GATE_AND_UP, Split()), (_DOWN, down))
        for name in names
    }


def _styled(path: str, style: str, heads: Heads) -> Split | None:
    """Returns the split of a style of `transformers`; None for what stays whole.

    Raises:
        ValueError: The style is unknown, or needs sums over all heads.
    """
    parent, _, name = path.rpartition(".")
    in_attention = parent in {"self_attn", "attention"}
    if style in {"rowwise", "rowwise_split_input"}:
        segments = (heads.queries,) if in_attention else ()
        return Split(dim=INPUTS, segments=segments, is_summed=True)
    if style == "packed_colwise" or name == "gate_up_proj":
        return Split(segments=(heads.size, heads.size))
    if name == "qkv_proj":
        return Split(segments=heads.fused)
    if style == "colwise":
        own = heads.keys if name in {"k_proj", "v_proj"} else heads.queries
        return Split(segments=(own,) if in_attention else ())
    if style in {"replicated_with_grad_allreduce", "mla_kv_a_proj", "moe_tp_experts"}:
        return None
    raise ValueError(f"its {path} has the parallel style {style!r}")


def _latent(config: PreTrainedConfig, heads: Heads) -> Splits:
    """Latents and the keys that all heads share are whole on each rank."""
    own = Split(segments=(heads.queries,))
    return {
        **_planned(config, heads),
        "self_attn.q_proj": own,
        "self_attn.q_b_proj": own,
        "self_attn.kv_b_proj": own,
        "self_attn.o_proj": Split(
            dim=INPUTS, segments=(heads.queries,), is_summed=True
        ),
    }


def _gpt_oss(_config: PreTrainedConfig, heads: Heads) -> Splits:
    """Experts are transposed, and gate and up projections alternate in them."""
    queries, keys = (Split(segments=(own,)) for own in (heads.queries, heads.keys))
    experts = "mlp.experts"
    return {
        "self_attn.q_proj": queries,
        "self_attn.k_proj": keys,
        "self_attn.v_proj": keys,
        "self_attn.o_proj": Split(
            dim=INPUTS, segments=(heads.queries,), is_summed=True
        ),
        "self_attn.sinks": Split(dim=-1, segments=(heads.queries,)),
        f"{experts}.gate_up_proj": Split(dim=-1),
        f"{experts}.gate_up_proj_blocks": Split(dim=-3),
        f"{experts}.gate_up_proj_scales": Split(dim=-2),
        f"{experts}.down_proj": Split(dim=-2, is_summed=True),
        f"{experts}.down_proj_blocks": Split(dim=-2, is_summed=True),
        f"{experts}.down_proj_scales": Split(dim=-1, is_summed=True),
    }


def _gpt2(_config: PreTrainedConfig, heads: Heads) -> Splits:
    """Its layers hold transposed weights."""
    return {
        "attn.c_attn": Split(dim=INPUTS, segments=heads.fused),
        "attn.c_proj": Split(dim=OUTPUTS, segments=(heads.queries,), is_summed=True),
        "mlp.c_fc": Split(dim=INPUTS),
        "mlp.c_proj": Split(dim=OUTPUTS, is_summed=True),
    }


def _bloom(_config: PreTrainedConfig, heads: Heads) -> Splits:
    """A head's query, key and value lie together."""
    return _fused_by_head((heads.queries,), heads)


def _falcon(_config: PreTrainedConfig, heads: Heads) -> Splits:
    """A KV head lies behind the query heads that share it."""
    if heads.keys == 1:
        return _fused_by_head(heads.fused, heads)
    if heads.keys % heads.size:
        raise ValueError(
            f"{heads.size} ranks cannot divide its {heads.keys} KV heads, which lie "
            "among its query heads"
        )
    return _fused_by_head((heads.keys,), heads)


def _fused_by_head(segments: tuple[int, ...], heads: Heads) -> Splits:
    return {
        "self_attention.query_key_value": Split(segments=segments),
        "self_attention.dense": Split(
            dim=INPUTS, segments=(heads.queries,), is_summed=True
        ),
        "mlp.dense_h_to_4h": Split(),
        "mlp.dense_4h_to_h": Split(dim=INPUTS, is_summed=True),
    }


def _mpt(_config: PreTrainedConfig, heads: Heads) -> Splits:
    return {
        "attn.Wqkv": Split(segments=heads.fused),
        "attn.out_proj": Split(dim=INPUTS, segments=(heads.queries,), is_summed=True),
        "ffn.up_proj": Split(),
        "ffn.down_proj": Split(dim=INPUTS, is_summed=True),
    }


_BY_PLAN = Family(splits=_planned)
_LATENT = Family(splits=_latent)

_PLANNED = (
    "apertus",
    "arcee",
    "cohere",
    "cohere2",
    "ernie4_5",
    "ernie4_5_moe",
    "exaone4",
    "exaone_moe",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4",
    "glm4_moe",
    "granite",
    "llama",
    "ministral",
    "mistral",
    "mixtral",
    "nemotron",
    "olmo",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "smollm3",
    "solar_open",
    "starcoder2",
    "vaultgemma",
)

FAMILIES: Mapping[str, Family] = {
    **dict.fromkeys(_PLANNED, _BY_PLAN),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "gpt_neox": Family(
        splits=_planned, summed=("attention.dense", "mlp"), is_resized=True
    ),
    "gpt_oss": Family(splits=_gpt_oss),
    "phi": Family(splits=_planned, summed=("self_attn.dense", "mlp")),
    "bloom": Family(
        splits=_bloom,
        summed=("self_attention.dense", "mlp.dense_4h_to_h"),
        is_resized=True,
    ),
    "falcon": Family(
        splits=_falcon, summed=("self_attention.dense", "mlp"), is_resized=True
    ),
    "gpt2": Family(splits=_gpt2, summed=("attn.c_proj", "mlp"), is_resized=True),
    "mpt": Family(
        splits=_mpt, summed=("attn.out_proj", "ffn.down_proj"), is_resized=True
    ),
}
"""By `model_type`; each is compared with `transformers` in the tests."""
