"""The sampling of requests that are silent: what the model's makers recommend.

Fields, and what `--generation-config` and `--override-generation-config` mean, are as
in vLLM. A value in the model's own file that cannot be used is left out with a warning;
one that an operator has named is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hookline.config.model import ModelConfig
from hookline.exceptions import ConfigError, ModelLoadError, RequestError
from hookline.frozen import frozen_map
from hookline.model_description import read_object
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingDefaults
from hookline_description.sizes import short

GENERATION_FILE = "generation_config.json"
AUTO, NO_FILE = "auto", "vllm"
"""The values of `--generation-config` that are no folders."""

_OVERRIDE = "override-generation-config"
_LENGTH = "max_new_tokens"
_WHOLE = ("top_k", _LENGTH)
FIELDS = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty"),
    *("presence_penalty", "frequency_penalty", _LENGTH),
)
"""The fields that count, by their names in the file."""


@dataclass(frozen=True, slots=True)
class ReadDefaults:
    """The defaults, and what was left out."""

    sampling: SamplingDefaults
    warnings: tuple[str, ...] = ()


def read_generation(config: ModelConfig, folder: Path) -> dict[str, object]:
    """Returns the contents of the file that counts; empty without one.

    It also names tokens that end texts, for which the model's own file counts if
    `--generation-config` is `vllm`.

    Args:
        config: The configured model.
        folder: The model's folder.

    Raises:
        ModelLoadError: The file is damaged, or a folder that was named has none.
    """
    source = config.generation_config
    named = source not in (AUTO, NO_FILE)
    path = (Path(source) if named else folder) / GENERATION_FILE
    if named and not path.is_file():
        raise ModelLoadError(config.model, f"{path} does not exist")
    return read_object(config.model, path) if path.is_file() else {}


def sampling_defaults(
    config: ModelConfig, described: Mapping[str, object]
) -> ReadDefaults:
    """Returns the sampling of requests that are silent.

    Args:
        config: The configured model.
        described: The contents of the file that counts.

    Raises:
        ConfigError: An overriding value is unknown or wrong.
        ModelLoadError: A value of a file that was named is wrong.
    """
    source = config.generation_config
    override = config.override_generation_config
    values, warnings, sources = dict[str, int | float](), list[str](), list[str]()
    for name in FIELDS if source != NO_FILE else ():
        try:
            values |= _checked(name, described.get(name))
        except RequestError as error:
            if source != AUTO:
                raise ModelLoadError(
                    config.model, f"{source}/{GENERATION_FILE}: {error}"
                ) from error
            warnings.append(f"{GENERATION_FILE}: {error}, so that it is left out")
    if values:
        sources.append(GENERATION_FILE if source == AUTO else source)
    for name, value in override.items():
        if name not in FIELDS:
            raise ConfigError(
                _OVERRIDE, f"has no {name!r}; it takes {', '.join(FIELDS)}"
            )
        values.pop(_param(name), None)
        try:
            values |= _checked(name, value)
        except RequestError as error:
            raise ConfigError(_OVERRIDE, str(error)) from error
    if override:
        sources.append(f"--{_OVERRIDE}")
    # As in vLLM, the model's own file does not bound what requests ask for.
    bounds = _LENGTH in override or source not in (AUTO, NO_FILE)
    length = values.get("max_tokens")
    return ReadDefaults(
        SamplingDefaults(
            values=frozen_map(values),
            most_tokens=int(length) if bounds and length is not None else None,
            source=", ".join(sources),
        ),
        tuple(warnings),
    )


def _param(name: str) -> str:
    return "max_tokens" if name == _LENGTH else name


def _checked(name: str, value: object) -> dict[str, int | float]:
    """Returns the value by its field of `SamplingParams`; nothing if it sets none.

    Raises:
        RequestError: It is wrong.
    """
    if value is None or (name == "top_k" and value in (0, -1)):
        return {}
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"{name} is {short(value)}, not a number")
    if name in _WHOLE and isinstance(value, float):
        if not value.is_integer():
            raise RequestError(f"{name} is {short(value)}, not a whole number")
        value = int(value)
    SamplingParams(**{_param(name): value})  # type: ignore[arg-type]
    return {_param(name): value if name in _WHOLE else float(value)}
