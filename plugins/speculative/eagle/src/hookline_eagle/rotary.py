"""Rotary embedding as a head's `config.json` describes it."""

from collections.abc import Mapping

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from hookline.exceptions import ConfigError
from hookline_eagle.head import Sides
from hookline_eagle.options import OPTION

_KEYS = ("rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings")


def angle_table(
    config: Mapping[str, object], head_dim: int, count: int, like: torch.Tensor
) -> Sides:
    """Returns cosines and sines of `count` positions, [count, head dim] each.

    They have the dtype and device of `like`.

    Raises:
        ConfigError: The kind of rotary embedding is not supported.
    """
    given = {key: config[key] for key in _KEYS if config.get(key) is not None}
    try:
        described = LlamaConfig.from_dict({**given, "head_dim": head_dim})
        module = LlamaRotaryEmbedding(described).to(like.device)
        positions = torch.arange(count, device=like.device)
        cosines, sines = module(like, positions[None])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            OPTION, f"the head's rotary embedding is not supported: {error}"
        ) from error
    return cosines[0], sines[0]
