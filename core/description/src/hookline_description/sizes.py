"""Refuses sizes that no model has, before anything is allocated by them."""

from collections.abc import Mapping
from typing import TypeGuard

from hookline.exceptions import ModelLoadError

MAX_PARAMETERS = 2**44
"""Parameters of a model, at most; the largest today have 2^41."""
MAX_LENGTH = 2**28
"""Tokens of a context, at most."""

_LARGEST: Mapping[str, int] = {
    "head_dim": 2**13,
    "hidden_size": 2**18,
    "intermediate_size": 2**22,
    "max_position_embeddings": MAX_LENGTH,
    "moe_intermediate_size": 2**22,
    "n_embd": 2**18,
    "n_head": 2**14,
    "n_layer": 2**12,
    "n_positions": MAX_LENGTH,
    "n_routed_experts": 2**14,
    "num_attention_heads": 2**14,
    "num_experts": 2**14,
    "num_hidden_layers": 2**12,
    "num_key_value_heads": 2**14,
    "num_local_experts": 2**14,
    "vocab_size": 2**24,
}
"""The largest value of each size; about a hundred times those of today's models."""


def check_sizes(model: str, config: Mapping[str, object]) -> None:
    """Checks the sizes in a configuration, before anything is allocated by them.

    Raises:
        ModelLoadError: A size is not a positive integer, or larger than any model's.
    """
    for name, largest in _LARGEST.items():
        value = config.get(name)
        if value is None or name in _lists(config):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelLoadError(
                model, f"config.json: {name} is {short(value)}, not an integer"
            )
        if not 0 <= value <= largest:
            raise ModelLoadError(
                model,
                f"config.json: {name} is {short(value)}; it must be 0 to {largest}",
            )
    if (count := least_parameters(config)) > MAX_PARAMETERS:
        raise ModelLoadError(
            model, f"config.json describes a model of more than {count:.0e} parameters"
        )


def least_parameters(config: Mapping[str, object]) -> int:
    """Returns how many parameters a model of these sizes has at least."""

    def size(name: str) -> int:
        value = config.get(name)
        return value if isinstance(value, int) else 0

    hidden = size("hidden_size")
    inner = size("intermediate_size")
    return hidden * (size("vocab_size") + size("num_hidden_layers") * inner)


def is_length(value: object) -> TypeGuard[int]:
    """Whether a value is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def short(value: object) -> str:
    """Returns a value as errors show it."""
    return repr(value)[:40]


def _lists(config: Mapping[str, object]) -> set[str]:
    """Sizes that differ by layer, which some models list."""
    return {name for name in _LARGEST if isinstance(config.get(name), list)}
