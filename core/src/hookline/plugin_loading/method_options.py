"""What options of methods have in common, for plugins to read them with."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from hookline import json_options
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.models.description import find_folder


def refuse_unknown(
    method: str, option: str, given: Mapping[str, object], known: Iterable[str]
) -> None:
    """Raises `ConfigError`, of a command's option, for a name that is not known."""
    json_options.refuse_unknown(f"the method {method}", option, given, known)


def model_of(option: str, given: Mapping[str, object]) -> str | None:
    """The folder or installed model that `model` names; None without one.

    Raises:
        ConfigError: It is no name.
    """
    model = given.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise ConfigError(option, f"model must name a folder, not {model!r}")
    return model


def brought_folder(
    method: str, option: str, model: str | None, target: str, *, what: str, some: str
) -> Path:
    """Where what a method needs lies: in the folder `model`, or in a model's own.

    Args:
        method: Also the folder's name in a model's folder.
        option: Of the command, for errors.
        model: A folder, or an installed model that brings one; None is the target.
        target: The model that is served.
        what: Is looked for, as errors call it.
        some: Of these, likewise.

    Raises:
        ConfigError: There is none.
    """
    if model is not None and (Path(model) / "config.json").is_file():
        return Path(model)
    try:
        brought = find_folder(model or target) / method
    except ModelLoadError as error:
        raise ConfigError(
            option,
            f"the method {method} finds no {what}: {model or target!r} is no "
            "folder with a config.json and no installed model",
        ) from error
    if not (brought / "config.json").is_file():
        raise ConfigError(
            option,
            f"the model {model or target!r} brings no {what} for the method "
            f'{method}; give a folder with "model", or train {some} with '
            "`hookline train-draft`",
        )
    return brought
