"""Helpers for proposers that read their options."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from hookline.config import checks
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.model_description import find_folder


def refuse_unknown(
    method: str, option: str, options: Mapping[str, object], known: Iterable[str]
) -> None:
    """Raises `ConfigError` for an option that the method does not have."""
    checks.refuse_unknown(f"the method {method}", option, options, known)


def check_number(option: str, name: str, value: object) -> None:
    """Raises `ConfigError` unless the value is a finite number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(option, f"{name} must be a number, not {value!r}")
    if not 0 <= value < float("inf"):
        raise ConfigError(option, f"{name} must be 0 or more, and finite, not {value}")


def check_rate(option: str, name: str, value: object) -> None:
    """Raises `ConfigError` unless the value is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(option, f"{name} must be a number, not {value!r}")
    if not 0 < value < 1:
        raise ConfigError(option, f"{name} must be between 0 and 1, not {value}")


def model_of(option: str, options: Mapping[str, object]) -> str | None:
    """Returns the option `model`, a folder or an installed model; None if missing.

    Raises:
        ConfigError: The value is not a non-empty string.
    """
    model = options.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise ConfigError(option, f"model must name a folder, not {model!r}")
    return model


def weights_folder(
    method: str, option: str, model: str | None, target: str, *, what: str, some: str
) -> Path:
    """Returns the folder with a method's weights.

    Args:
        method: Name of the method, and of the folder in a model's folder.
        option: Command-line option, for errors.
        model: Folder with the weights, or installed model that includes some; None
            selects those included with the target.
        target: The served model.
        what: Word for the weights in errors, such as `head`.
        some: Word for them in advice, such as `one`.

    Raises:
        ConfigError: No weights are found.
    """
    if model is not None and (Path(model) / "config.json").is_file():
        return Path(model)
    try:
        included = find_folder(model or target) / method
    except ModelLoadError as error:
        raise ConfigError(
            option,
            f"the method {method} finds no {what}: {model or target!r}: {error.reason}",
        ) from error
    if not (included / "config.json").is_file():
        raise ConfigError(
            option,
            f"the model {model or target!r} includes no {what} for the method "
            f'{method}; give a folder with "model", or train {some} with '
            "`hookline train-draft`",
        )
    return included
