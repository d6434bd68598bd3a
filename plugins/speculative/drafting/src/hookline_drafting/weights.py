"""Reads configuration and weights of a draft model; never executes a file's code."""

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_processes.model_files import read_model_file, real_model_file

_READING_ERRORS = (
    SafetensorError,
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    pickle.UnpicklingError,
)
"""Errors that reading a damaged file can raise."""


def read_config(folder: Path) -> dict[str, object]:
    """Returns the object in `config.json`.

    Raises:
        ConfigError: The file is missing or damaged.
    """
    path = folder / "config.json"
    try:
        found = json.loads(read_model_file(path))
    except (OSError, ValueError) as error:
        raise ConfigError(OPTION, f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(OPTION, f"{path} does not contain a JSON object")
    return found


def find_weights(folder: Path, names: Sequence[str]) -> Path:
    """Returns the first of these files that exists.

    Raises:
        ConfigError: None exists, or it is a link to elsewhere.
    """
    for name in names:
        if (folder / name).is_file():
            try:
                real_model_file(folder, name)
            except ValueError as error:
                raise ConfigError(OPTION, f"{folder}: {error}") from error
            return folder / name
    raise ConfigError(OPTION, f"{folder} has neither {' nor '.join(names)}")


def read_weights(path: Path) -> Mapping[str, object]:
    """Returns the tensors of a safetensors or torch file by name, on the CPU.

    Raises:
        ConfigError: The file is damaged, or would run code.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except _READING_ERRORS as error:
        raise ConfigError(OPTION, f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(OPTION, f"{path} does not contain weights by name")
    return found
