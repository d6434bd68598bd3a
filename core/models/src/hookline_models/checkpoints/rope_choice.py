"""Chooses rotary embeddings that would else change with the length of the batch.

Two kinds have other frequencies for long contexts than for short ones. `transformers`
chooses by the longest sequence that it computes, so that a request's output would
depend on its neighbours, and on what is cached. Here the longest context that a server
allows decides, once and for all requests, as in vLLM: up to the original length they
are those of short contexts.
"""

from collections.abc import Iterator
from typing import Any

from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from hookline.exceptions import ModelLoadError

_DEFAULT = "default"

_LONGROPE_FIELDS = ("factor", "mscale")
"""What LongRoPE (Ding et al. 2024) has of both, as `short_…` and `long_…`."""


def choose_rope(config: PreTrainedConfig, max_model_len: int) -> None:
    """Changes a configuration so that its rotary embeddings are of one length.

    Args:
        config: The configuration of a model, of which nothing is made yet.
        max_model_len: The longest context that is served, in tokens.
    """
    text = config.get_text_config()
    if not getattr(text, "rope_parameters", None):
        return
    text.standardize_rope_params()
    for rope in _ropes(text):
        kind = rope.get("rope_type")
        if kind == "longrope":
            _choose_factors(rope, max_model_len)
        elif kind == "dynamic" and not _is_static(rope, text):
            _fix_base(rope, text, max_model_len)


def refuse_unknown_ropes(name: str, config: PreTrainedConfig) -> None:
    """Raises `ModelLoadError` for rotary embeddings that `transformers` has not."""
    text = config.get_text_config()
    if not getattr(text, "rope_parameters", None):
        return
    text.standardize_rope_params()
    for rope in _ropes(text):
        kind = rope.get("rope_type", _DEFAULT)
        if kind != _DEFAULT and kind not in ROPE_INIT_FUNCTIONS:
            known = ", ".join(sorted({_DEFAULT, *ROPE_INIT_FUNCTIONS}))
            raise ModelLoadError(
                name,
                f"its rotary embedding has the type {kind!r}; Hookline knows {known}",
            )
        lengths = {
            len(rope[field])
            for field in ("short_factor", "long_factor")
            if isinstance(rope.get(field), list)
        }
        if kind == "longrope" and lengths != {_rotated(rope, text) // 2}:
            raise ModelLoadError(
                name,
                f"its longrope has {' and '.join(map(str, sorted(lengths)))} factors "
                f"for {_rotated(rope, text) // 2} frequencies",
            )


def _is_static(rope: dict[str, Any], config: PreTrainedConfig) -> bool:
    """Whether a base is fixed by `alpha`, as Hunyuan's, though it is called dynamic."""
    return bool(rope.get("alpha")) and config.model_type.startswith("hunyuan")


def _rotated(rope: dict[str, Any], config: PreTrainedConfig) -> int:
    """Returns how many numbers of a head are rotated."""
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(head_dim * rope.get("partial_rotary_factor", 1.0))


def _ropes(config: PreTrainedConfig) -> Iterator[dict[str, Any]]:
    """Yields the parameters of all layers, or of each type of layers."""
    found = config.rope_parameters
    nested = [each for each in found.values() if isinstance(each, dict)]
    yield from nested or [found]


def _choose_factors(rope: dict[str, Any], max_model_len: int) -> None:
    """Makes both sets of LongRoPE's factors the one that counts."""
    is_long = max_model_len > rope["original_max_position_embeddings"]
    for field in _LONGROPE_FIELDS:
        chosen = rope.get(f"{'long' if is_long else 'short'}_{field}")
        if chosen is not None:
            rope[f"short_{field}"] = rope[f"long_{field}"] = chosen


def _fix_base(
    rope: dict[str, Any], config: PreTrainedConfig, max_model_len: int
) -> None:
    """Gives a dynamic one (bloc97 2023) the base that it has for that length."""
    original, factor = config.max_position_embeddings, rope.pop("factor")
    rope["rope_type"] = _DEFAULT
    rope.pop("type", None)
    if max_model_len > original:
        dim = _rotated(rope, config)
        grown = factor * max_model_len / original - (factor - 1)
        rope["rope_theta"] *= grown ** (dim / (dim - 2))
