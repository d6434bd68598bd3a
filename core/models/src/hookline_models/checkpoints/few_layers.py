"""Cuts a model to the layers that show which kernels it needs."""

from collections.abc import Mapping

from transformers import PreTrainedConfig

_PERIODS = (
    "decoder_sparse_step",
    "first_k_dense_replace",
    "full_attention_interval",
    "sliding_window_pattern",
)
"""Numbers of layers after which a layer of another kind comes."""
_LEAST = 2


def keep_few_layers(config: PreTrainedConfig) -> None:
    """Leaves as many of the first layers as have one of each kind.

    Args:
        config: Is changed. Layers whose kind it does not tell count as equal.
    """
    text = config.get_text_config()
    described, layers = text.to_dict(), text.num_hidden_layers
    by_layer = {
        name: value
        for name, value in described.items()
        if isinstance(value, list) and len(value) == layers
    }
    kept = min(layers, _needed(described, by_layer))
    for name, value in by_layer.items():
        setattr(text, name, value[:kept])
    text.num_hidden_layers = kept


def _needed(
    described: Mapping[str, object], by_layer: Mapping[str, list[object]]
) -> int:
    """Returns the number of first layers among which is one of each kind."""
    needed = _LEAST
    for kinds in by_layer.values():
        firsts = [kinds.index(kind) for kind in kinds]
        needed = max(needed, 1 + max(firsts, default=0))
    for name in _PERIODS:
        period = described.get(name)
        if isinstance(period, int):
            needed = max(needed, 1 + period)
    return needed
