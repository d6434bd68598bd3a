"""Reads JSON files of a model folder, and refuses sizes that no model has."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from hookline.exceptions import ModelLoadError

MAX_JSON_BYTES = 64 * 2**20
MAX_PARAMETERS = 2**44
"""Parameters of a model, at most; the largest today have 2^41."""

_LARGEST: Mapping[str, int] = {
    "head_dim": 2**13,
    "hidden_size": 2**18,
    "intermediate_size": 2**22,
    "max_position_embeddings": 2**28,
    "moe_intermediate_size": 2**22,
    "n_embd": 2**18,
    "n_head": 2**14,
    "n_layer": 2**12,
    "n_positions": 2**28,
    "n_routed_experts": 2**14,
    "num_attention_heads": 2**14,
    "num_experts": 2**14,
    "num_hidden_layers": 2**12,
    "num_key_value_heads": 2**14,
    "num_local_experts": 2**14,
    "vocab_size": 2**24,
}
"""The largest value of each size; about a hundred times those of today's models."""


def read_object(model: str, path: Path) -> dict[str, object]:
    """Returns the JSON object in a file.

    Raises:
        ModelLoadError: The file is missing, too large, nested too deeply, no JSON
            object, or has a number that is not finite.
    """
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise ModelLoadError(
                model, f"{path.name} is larger than {MAX_JSON_BYTES >> 20} MiB"
            )
        found = json.loads(
            path.read_text("utf-8"), parse_constant=_refuse, parse_float=_finite
        )
    except (OSError, ValueError) as error:
        raise ModelLoadError(model, f"{path.name} cannot be read: {error}") from error
    except RecursionError as error:
        reason = f"{path.name} is nested too deeply"
        raise ModelLoadError(model, reason) from error
    if not isinstance(found, dict):
        raise ModelLoadError(model, f"{path.name} does not contain an object")
    return found


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
                model, f"config.json: {name} is {_short(value)}, not an integer"
            )
        if not 0 <= value <= largest:
            raise ModelLoadError(
                model,
                f"config.json: {name} is {_short(value)}; it must be 0 to {largest}",
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


def _lists(config: Mapping[str, object]) -> set[str]:
    """Sizes that differ by layer, which some models list."""
    return {name for name in _LARGEST if isinstance(config.get(name), list)}


def _short(value: object) -> str:
    return repr(value)[:40]


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return value
