"""The options of adapters, with the names of vLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from hookline.config.engine import OWN_ENGINE, EngineConfig
from hookline.config.options import check_options, option
from hookline.config.readers import read_size
from hookline.config.sections import ConfigSection
from hookline.exceptions import ConfigError
from hookline_lora.config import AdapterSource, LoraConfig
from hookline_metrics.adapters import LORA

_DEFAULTS = LoraConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraOptions(ConfigSection):
    """The section `lora` of a configuration."""

    key: ClassVar = "lora"
    group: ClassVar = "adapters"

    enabled: bool = option(
        "Serve LoRA adapters beside the model; requests name one as their model.",
        default=False,
        flag="enable-lora",
    )
    modules: tuple[str, ...] = option(
        "Adapter to load at the start: NAME=FOLDER, or JSON with name, path, "
        "base_model_name and is_pinned.",
        default=(),
        flag="lora-modules",
        metavar="NAME=FOLDER",
    )
    max_loras: int = option(
        "Number of adapters with which one step can compute.",
        default=_DEFAULTS.max_loras,
        flag="max-loras",
        minimum=1,
        maximum=1024,
    )
    max_lora_rank: int = option(
        "Largest rank of an adapter.",
        default=_DEFAULTS.max_lora_rank,
        flag="max-lora-rank",
        minimum=1,
        maximum=1024,
    )
    max_cpu_loras: int | None = option(
        "Number of adapters in main memory, those of the steps included.",
        default=None,
        flag="max-cpu-loras",
        minimum=1,
        shown_default="all that --lora-memory holds, or --max-loras without it",
    )
    memory: int | None = option(
        "Main memory for adapters.",
        default=None,
        flag="lora-memory",
        metavar="BYTES",
        minimum=1,
        read=read_size,
        shown_default="what --max-cpu-loras need",
    )
    target_modules: tuple[str, ...] = option(
        "Layer that adapters may change, such as q_proj.",
        default=(),
        flag="lora-target-modules",
        commas=True,
        shown_default="all that are supported",
    )
    directory: str | None = option(
        "Folder with adapters: a request may name one below it, which is loaded on "
        "first use, and clients may load from it.",
        default=None,
        flag="lora-dir",
        metavar="FOLDER",
    )
    max_wait: float = option(
        "Time after which an adapter that waits gets a slot before new requests of "
        "adapters that have one.",
        default=_DEFAULTS.max_wait,
        flag="lora-max-wait",
        metavar="SECONDS",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        names = [each.name for each in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError("lora-modules", f"{name!r} is there twice")
        if self.max_cpu_loras is not None and self.max_cpu_loras < self.max_loras:
            raise ConfigError(
                "max-cpu-loras",
                f"must be at least max-loras, {self.max_loras}: adapters of a step are "
                "in main memory, too",
            )
        if not self.enabled and (self.modules or self.directory is not None):
            flag = "lora-modules" if self.modules else "lora-dir"
            raise ConfigError(flag, "requires enable-lora")

    @property
    def sources(self) -> Sequence[AdapterSource]:
        """The adapters that are loaded at the start.

        Raises:
            ConfigError: One is neither `NAME=FOLDER` nor such JSON.
        """
        return [_source(text) for text in self.modules]

    def check(self, config: EngineConfig) -> None:
        """Raises `ConfigError` for another engine, or an adapter named as the model."""
        if self.enabled and config.engine != OWN_ENGINE:
            raise ConfigError(
                "enable-lora",
                f"is for Hookline's engine: give {config.engine} its own after --",
            )
        names = {config.model.model, config.model.served_model_name}
        for each in self.sources:
            if each.name in names:
                raise ConfigError(
                    "lora-modules", f"{each.name!r} is the name of the base model"
                )

    def derived(self, config: EngineConfig) -> Mapping[str, object]:
        """Has the engine load the extension."""
        if not self.enabled:
            return {}
        section = LoraConfig(
            modules=tuple(self.sources),
            max_loras=self.max_loras,
            max_lora_rank=self.max_lora_rank,
            max_cpu_loras=self.max_cpu_loras,
            memory=self.memory,
            target_modules=self.target_modules or None,
            directory=self.directory,
            max_wait=self.max_wait,
        )
        plain = msgspec.to_builtins(section)
        return {"extensions": {**config.extensions, LORA: plain}}


def _source(text: str) -> AdapterSource:
    if text.startswith("{"):
        try:
            found = msgspec.json.decode(text, type=AdapterSource)
        except msgspec.DecodeError as error:
            raise ConfigError("lora-modules", f"{text}: {error}") from error
    else:
        name, _, path = text.partition("=")
        found = AdapterSource(name=name, path=path)
    if not (found.name and found.path):
        raise ConfigError(
            "lora-modules",
            f"{text!r} is neither NAME=FOLDER nor JSON with name and path",
        )
    return found
