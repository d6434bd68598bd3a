"""Turns names that only a model source knows into folders, once, before a start."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.model_description import find_folder
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import MODEL, MODEL_SOURCE
from hookline_registry import installed

_OWN_ENGINE = "native"
_TIMES = 2
"""What one source answers may be another's name: a hub has files, too."""


def located(config: EngineConfig) -> EngineConfig:
    """Returns the configuration with folders in place of names of other machines.

    Who starts engines calls it, so that neither they nor other processes of theirs
    look anything up. It may take as long as a download.

    Raises:
        ConfigError: A source is broken, an option does not fit, or there is no such
            tokenizer.
        ModelLoadError: A source knows the name and cannot provide the model.
    """
    # Another engine knows itself what its models' names mean.
    if config.engine != _OWN_ENGINE:
        return config
    config = _with_tokenizer_folder(config)
    if all(map(is_here, model_names(config))):
        return config
    for source in installed(MODEL_SOURCE.group) * _TIMES:
        found = call_plugin(MODEL_SOURCE, source.name, config, option="model")
        config = cast("EngineConfig", found) or config  # others may know other names
    _check_tokenizer(config.model.tokenizer)
    return config


def _check_tokenizer(name: str | None) -> None:
    if name and not Path(name).is_dir() and not is_here(name):
        raise ConfigError(
            "tokenizer", f"{name!r} is neither a folder nor an installed model"
        )


def _with_tokenizer_folder(config: EngineConfig) -> EngineConfig:
    """Returns the configuration with the folder of an installed model's tokenizer."""
    name = config.model.tokenizer
    if not name or Path(name).is_dir() or not is_here(name):
        return config
    model = replace(config.model, tokenizer=str(find_folder(name)))
    return replace(config, model=model)


def model_names(config: EngineConfig) -> list[str]:
    """Returns the names of models in a configuration: its own and those that help."""
    draft = (config.speculative or {}).get("model")
    names = (config.model.model, config.model.tokenizer, draft)
    return [each for each in names if isinstance(each, str) and each]


def is_here(name: str) -> bool:
    """Whether a name is that of a model's folder, or of an installed model."""
    try:
        if (Path(name) / "config.json").is_file():
            return True
    except OSError:  # which says later what is wrong
        return True
    return any(each.name == name for each in installed(MODEL.group))
