"""What the core knows of a model folder, which it finds and whose JSON it reads.

It needs neither torch nor transformers.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from hookline.exceptions import ConfigError, ModelLoadError
from hookline.moved_modules import moved_name
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import MODEL
from hookline.sampling_values import NO_DEFAULTS, SamplingDefaults
from hookline_processes.model_files import (
    LFS_POINTER,
    LFS_REASON,
    folder_refusal,
    read_model_file,
)
from hookline_registry import UnknownPluginError, installed


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """What the files of a model folder say of the model.

    Attributes:
        folder: The model's folder.
        architecture: The model's class.
        vocab_size: Number of token ids.
        max_position_embeddings: Maximum context length of the model in tokens.
        eos_token_ids: Tokens that end its texts.
        default_max_model_len: Context length that is served unless one is configured.
        length_source: What its maximum follows from, in one clause.
        sampling: What requests get where they are silent.
    """

    folder: Path
    architecture: str
    vocab_size: int
    max_position_embeddings: int
    eos_token_ids: tuple[int, ...]
    default_max_model_len: int
    length_source: str
    sampling: SamplingDefaults = NO_DEFAULTS

    def max_model_len(self, configured: int | None) -> int:
        """Returns the context length to serve, in tokens.

        Args:
            configured: The configured length; None selects the default.

        Raises:
            ConfigError: `configured` exceeds the model's context length.
        """
        if configured is not None and configured > self.max_position_embeddings:
            raise ConfigError(
                "max-model-len",
                f"{configured} is more than the model's {self.max_position_embeddings} "
                f"({self.length_source})",
            )
        return configured or self.default_max_model_len


def find_folder(name: str) -> Path:
    """Returns the folder of a model that is named by path or as an installed model.

    Raises:
        ModelLoadError: The name is neither, or the folder is refused.
    """
    folder = Path(name)
    try:
        if not (is_model := (folder / "config.json").is_file()):
            folder = cast("Path", hook_of(MODEL, name)())
            is_model = (folder / "config.json").is_file()
    except UnknownPluginError:
        pass
    except OSError as error:
        raise ModelLoadError(name, f"cannot be read: {error.strerror}") from error
    if not is_model:
        known = ", ".join(plugin.name for plugin in installed(MODEL.group)) or "none"
        raise ModelLoadError(
            name,
            f"not a folder with config.json, nor an installed model (installed: "
            f"{known})",
        )
    if reason := folder_refusal(folder):
        raise ModelLoadError(name, reason)
    return folder


def read_object(model: str, path: Path) -> dict[str, object]:
    """Returns the JSON object in a file.

    Raises:
        ModelLoadError: The file is missing, too large, elsewhere, nested too deeply,
            no JSON object, or has a number that is not finite.
    """
    try:
        text = read_model_file(path).decode()
        if text.startswith(LFS_POINTER):
            raise ModelLoadError(model, f"{path.name} {LFS_REASON}")
        found = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (OSError, ValueError) as error:
        raise ModelLoadError(model, f"{path.name} cannot be read: {error}") from error
    except RecursionError as error:
        reason = f"{path.name} is nested too deeply"
        raise ModelLoadError(model, reason) from error
    if not isinstance(found, dict):
        raise ModelLoadError(model, f"{path.name} does not contain an object")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large")
    return value


def __getattr__(name: str) -> object:
    return moved_name(__name__, name)
