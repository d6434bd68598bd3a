"""Reads `config.json` as the option `hf-overrides` changes it, by vLLM's rules.

ModelOpt has described quantized weights in a file beside it, which is read, too.
"""

from collections.abc import Mapping
from pathlib import Path

from hookline.config.model import ModelConfig
from hookline.model_description import read_object

_NO_PARTS = {"quantization_config", "compression_config"}
_PART = "_config"
_MODELOPT_FILE = "hf_quant_config.json"


def read_config_file(config: ModelConfig, folder: Path) -> dict[str, object]:
    """Returns the contents of a folder's `config.json` with the option's values.

    Raises:
        ModelLoadError: The file is missing or damaged.
    """
    described = read_object(config.model, folder / "config.json")
    beside = folder / _MODELOPT_FILE
    if not described.get("quantization_config") and beside.is_file():
        found = read_object(config.model, beside).get("quantization")
        if isinstance(found, dict) and found.get("quant_algo"):
            entries = {"quant_method": "modelopt", **found}
            described = {**described, "quantization_config": entries}
    return overridden(described, config.hf_overrides)


def overridden(
    described: Mapping[str, object], overrides: Mapping[str, object]
) -> dict[str, object]:
    """Returns a configuration with other values.

    The configuration of a part, such as `text_config`, keeps what is not named; any
    other object, such as `rope_scaling`, is replaced as a whole.
    """
    found = dict(described)
    for name, value in overrides.items():
        own = found.get(name)
        is_part = name.endswith(_PART) and name not in _NO_PARTS
        if is_part and isinstance(own, dict) and isinstance(value, dict):
            found[name] = merged(own, value)
        else:
            found[name] = value
    return found


def merged(
    first: Mapping[str, object], second: Mapping[str, object]
) -> dict[str, object]:
    """Returns the keys of both; those of the second win, mappings are merged."""
    found = dict(first)
    for key, value in second.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)  # noqa: PLW2901
        found[key] = value
    return found
