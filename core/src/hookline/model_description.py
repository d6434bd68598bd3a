"""Reads a model folder's descriptions, and refuses sizes that no model has.

It needs neither torch nor transformers.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from hookline.config.model import ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import MODEL
from hookline_processes.model_files import folder_refusal, read_model_file
from hookline_registry import UnknownPluginError, installed

_CONTEXT_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
)
_TRAINED_LENGTHS = {"bloom": 2048, "falcon": 2048, "mpt": 2048}
"""Tokens of the contexts that these families were trained with."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The parts of `config.json` and `generation_config.json` that the core needs.

    Attributes:
        folder: The model's folder.
        architecture: The model's class.
        vocab_size: Number of token ids.
        max_position_embeddings: Maximum context length of the model in tokens.
        eos_token_ids: Tokens that end its texts.
    """

    folder: Path
    architecture: str
    vocab_size: int
    max_position_embeddings: int
    eos_token_ids: tuple[int, ...]

    def max_model_len(self, configured: int | None) -> int:
        """Returns the context length to serve, in tokens.

        Args:
            configured: The configured length; None selects the model's.

        Raises:
            ConfigError: `configured` exceeds the model's context length.
        """
        if configured is not None and configured > self.max_position_embeddings:
            raise ConfigError(
                "max-model-len",
                f"{configured} is more than the model's {self.max_position_embeddings}",
            )
        return configured or self.max_position_embeddings


def find_folder(name: str) -> Path:
    """Returns the folder of a model that is named by path or as an installed model.

    Raises:
        ModelLoadError: The name is neither, or the folder is refused.
    """
    try:
        folder = cast("Path", hook_of(MODEL, name)())
    except UnknownPluginError:
        folder = Path(name)
    if not (folder / "config.json").is_file():
        known = ", ".join(plugin.name for plugin in installed(MODEL.group)) or "none"
        raise ModelLoadError(
            name,
            f"not a folder with config.json, nor an installed model (installed: "
            f"{known}); Hookline downloads nothing",
        )
    if reason := folder_refusal(folder):
        raise ModelLoadError(name, reason)
    return folder


def describe(config: ModelConfig) -> ModelDescription:
    """Reads a model's description.

    Raises:
        ModelLoadError: The description is missing, damaged or incomplete.
    """
    folder = find_folder(config.model)
    whole = read_object(config.model, folder / "config.json")
    text = whole.get("text_config")
    inner = text if isinstance(text, dict) else whole
    architectures = whole.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    generation: dict[str, object] = {}
    if (folder / "generation_config.json").is_file():
        generation = read_object(config.model, folder / "generation_config.json")
    description = ModelDescription(
        folder=folder,
        architecture=str(names[0]) if names else str(whole.get("model_type")),
        vocab_size=_number(config.model, inner, "vocab_size"),
        max_position_embeddings=_number(
            config.model, inner | _context_length(inner), *_CONTEXT_LENGTHS
        ),
        eos_token_ids=_eos_token_ids(generation, whole, inner),
    )
    check_sizes(config.model, whole)
    check_sizes(config.model, inner)
    return description


def read_object(model: str, path: Path) -> dict[str, object]:
    """Returns the JSON object in a file.

    Raises:
        ModelLoadError: The file is missing, too large, elsewhere, nested too deeply,
            no JSON object, or has a number that is not finite.
    """
    try:
        text = read_model_file(path).decode()
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
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


def _context_length(config: Mapping[str, object]) -> dict[str, object]:
    """The context length of families whose configurations need not name it."""
    trained = _TRAINED_LENGTHS.get(str(config.get("model_type")))
    is_named = any(name in config for name in _CONTEXT_LENGTHS)
    return {} if is_named or trained is None else {_CONTEXT_LENGTHS[0]: trained}


def _number(model: str, config: dict[str, object], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and value > 0:
            return value
    raise ModelLoadError(model, f"config.json has no valid {names[0]}")


def _eos_token_ids(*sources: dict[str, object]) -> tuple[int, ...]:
    for source in sources:
        found = source.get("eos_token_id")
        if isinstance(found, int):
            return (found,)
        if isinstance(found, list) and found:
            return tuple(int(token_id) for token_id in found)
    return ()


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
