"""Whether and how a model embeds: options, and the files of Sentence Transformers."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hookline.config import Convert, EngineConfig, Runner
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.frozen import EMPTY
from hookline.model_description import find_folder, read_object
from hookline_description.overriding import read_config_file
from hookline_pooling.config import PoolerConfig
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_processes.model_files import read_model_file

_MODULES = "modules.json"
_POOLING = "1_Pooling"
_MODES: Mapping[str, PoolingType] = {
    "pooling_mode_lasttoken": PoolingType.LAST,
    "pooling_mode_mean_tokens": PoolingType.MEAN,
    "pooling_mode_cls_token": PoolingType.CLS,
}
_SIZES = ("hidden_size", "n_embd", "d_model")


def pooling_facts(
    config: EngineConfig, options: Mapping[str, object] = EMPTY
) -> PoolingFacts | None:
    """Returns how the configured engine pools; None if it does not embed.

    A folder with the files of Sentence Transformers is a model that only embeds,
    unless an option says otherwise.

    Args:
        config: The engine's configuration.
        options: Those of the extension.

    Raises:
        ConfigError: Options do not fit each other or the model.
        ModelLoadError: A description is damaged, or has a pooling that is not
            supported.
    """
    given = PoolerConfig.from_mapping(options)
    model = config.model
    folder = find_folder(model.model)
    is_sentence_model = (folder / _MODULES).is_file()
    is_auto = model.runner is Runner.AUTO and model.convert is Convert.AUTO
    is_alone = model.runner is Runner.POOLING or (is_auto and is_sentence_model)
    if not is_alone and model.convert is not Convert.EMBED:
        if config.pooler is not None:
            raise ConfigError(
                "pooler-config",
                "has no effect: this engine does not embed; add "
                "--runner pooling, or --convert embed to generate as well",
            )
        return None
    if model.convert is Convert.NONE:
        raise ConfigError(
            "convert", "none contradicts runner pooling: a decoder embeds by converting"
        )
    found = _of_folder(model.model, folder) if is_sentence_model else PoolerConfig()
    return _facts(config, folder, (given, found), is_alone=is_alone)


def _facts(
    config: EngineConfig,
    folder: Path,
    configs: tuple[PoolerConfig, PoolerConfig],
    *,
    is_alone: bool,
) -> PoolingFacts:
    given, found = configs
    described = read_config_file(config.model, folder)
    inner = described.get("text_config")
    size = _hidden_size(
        config.model.model, inner if isinstance(inner, dict) else described
    )
    numbers = described.get("matryoshka_dimensions")
    allowed = numbers if isinstance(numbers, list) else []
    is_matryoshka = bool(described.get("is_matryoshka") or allowed)
    facts = PoolingFacts(
        kind=given.pooling_type or found.pooling_type or PoolingType.LAST,
        normalize=_first(given.normalize, found.normalize, default=True),
        hidden_size=size,
        dimensions=given.dimensions,
        is_matryoshka=_first(given.is_matryoshka, default=is_matryoshka),
        matryoshka_dimensions=tuple(each for each in allowed if isinstance(each, int)),
        is_alone=is_alone,
    )
    if facts.dimensions is not None and facts.dimensions > size:
        raise ConfigError(
            "pooler-config",
            f"dimensions must be at most {size}, the model's hidden size",
        )
    return facts


def _of_folder(name: str, folder: Path) -> PoolerConfig:
    """Reads the poolers of a sentence model."""
    kinds = {
        str(module.get("type", "")).rsplit(".", maxsplit=1)[-1]
        for module in _modules(name, folder)
    }
    if unknown := kinds - {"Transformer", "Pooling", "Normalize"}:
        raise ModelLoadError(
            name,
            f"its modules.json has modules that are not supported: "
            f"{', '.join(sorted(unknown))}",
        )
    kind = PoolingType.MEAN  # the default of Sentence Transformers
    if (folder / _POOLING / "config.json").is_file():
        modes = read_object(name, folder / _POOLING / "config.json")
        chosen = [key for key, value in modes.items() if _is_mode(key, value)]
        if len(chosen) != 1 or chosen[0] not in _MODES:
            raise ModelLoadError(
                name,
                f"its {_POOLING}/config.json asks for {' and '.join(chosen) or 'none'};"
                f" supported is one of {', '.join(_MODES)}",
            )
        kind = _MODES[chosen[0]]
    return PoolerConfig(pooling_type=kind, normalize="Normalize" in kinds)


def _is_mode(key: str, value: object) -> bool:
    return key.startswith("pooling_mode_") and value is True


def _modules(name: str, folder: Path) -> list[dict[str, object]]:
    try:
        text = read_model_file(folder / _MODULES)
        return msgspec.json.decode(text, type=list[dict[str, object]])
    except (OSError, ValueError) as error:  # among them msgspec's
        raise ModelLoadError(name, f"its {_MODULES} is damaged: {error}") from error


def _hidden_size(name: str, described: Mapping[str, object]) -> int:
    sizes = (described.get(key) for key in _SIZES)
    size = next((each for each in sizes if isinstance(each, int) and each > 0), None)
    if size is None:
        raise ModelLoadError(name, f"config.json has no valid {_SIZES[0]}")
    return size


def _first(*values: bool | None, default: bool) -> bool:
    return next((each for each in values if each is not None), default)
