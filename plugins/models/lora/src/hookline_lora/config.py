"""LoRA adapters: the options of `--enable-lora`, with the names of vLLM."""

from collections.abc import Mapping
from typing import Self

import msgspec

from hookline.exceptions import ConfigError

OPTION = "enable-lora"


class AdapterSource(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """An adapter that is loaded at the start.

    Attributes:
        name: Name by which requests ask for it.
        path: Folder with its files, or `demo:NAME` for one of the demo model.
        base_model_name: The base model that its card shows as parent.
        is_pinned: Whether it stays in memory.
    """

    name: str
    path: str
    base_model_name: str | None = None
    is_pinned: bool = False


class LoraConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How adapters are served.

    Attributes:
        modules: Adapters that are loaded at the start.
        max_loras: Number of slots: adapters with which one step can compute.
        max_lora_rank: Largest rank of an adapter.
        max_cpu_loras: Number of adapters in main memory, those in slots included; None
            is `max_loras`, or what `memory` holds.
        memory: Bytes of main memory for adapters; None is no limit beside the number.
        target_modules: Names of the layers that adapters may change; None is all.
        directory: Folder below which names are resolved, and from which clients may
            load; None resolves none.
        max_wait: Seconds after which a waiting adapter gets a slot before requests of
            adapters that have one.
    """

    modules: tuple[AdapterSource, ...] = ()
    max_loras: int = 8
    max_lora_rank: int = 16
    max_cpu_loras: int | None = None
    memory: int | None = None
    target_modules: tuple[str, ...] | None = None
    directory: str | None = None
    max_wait: float = 5.0

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from a section of the engine's configuration.

        Raises:
            ConfigError: A key is unknown, or a value is wrong.
        """
        try:
            return msgspec.convert(dict(given), cls)
        except msgspec.ValidationError as error:
            raise ConfigError(OPTION, str(error)) from error
