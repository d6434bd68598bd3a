"""Reads a model folder's descriptions, without torch or transformers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hookline.config.model import ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.models.config_limits import check_sizes, read_object
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import MODEL
from hookline_registry import UnknownPluginError, installed

_CONTEXT_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
)
_TRAINED_LENGTHS = {"bloom": 2048, "falcon": 2048, "mpt": 2048}
"""Tokens of the contexts that these families were trained with."""


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
        ModelLoadError: The name is neither.
    """
    try:
        find = hook_of(MODEL, name)
    except UnknownPluginError:
        folder = Path(name)
    else:
        folder = cast("Path", find())
    if not (folder / "config.json").is_file():
        known = ", ".join(plugin.name for plugin in installed(MODEL.group)) or "none"
        raise ModelLoadError(
            name,
            f"not a folder with config.json, nor an installed model (installed: "
            f"{known}); Hookline downloads nothing",
        )
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
