"""Messages that load and unload adapters, by the names of vLLM and of SGLang."""

from typing import Annotated, Literal

import msgspec

from hookline_server.adapters import ServedAdapter

AdapterName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
AdapterPath = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class LoadAdapterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter to load.

    Attributes:
        lora_name: Name that requests will use.
        lora_path: Folder with its files, below `--lora-dir`.
        load_inplace: Whether it takes the place of an adapter of this name.
        base_model_name: The base model that its card shows.
        pinned: Whether it stays in memory.
    """

    lora_name: AdapterName
    lora_path: AdapterPath
    load_inplace: bool = False
    base_model_name: str | None = None
    pinned: bool = False


class UnloadAdapterRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter to unload.

    Attributes:
        lora_name: Its name.
        mode: `wait` lets its requests end first, `abort` ends them.
    """

    lora_name: AdapterName
    mode: Literal["wait", "abort"] = "wait"


class AdapterChanged(msgspec.Struct, frozen=True, kw_only=True):
    """SGLang's answer.

    Attributes:
        success: True: errors have statuses of their own.
        loaded_adapters: Path of each adapter by its name.
    """

    success: bool = True
    error_message: str = ""
    loaded_adapters: dict[str, str]


class AdapterList(msgspec.Struct, frozen=True, kw_only=True):
    """All adapters."""

    object: Literal["list"] = "list"
    data: list[ServedAdapter]
