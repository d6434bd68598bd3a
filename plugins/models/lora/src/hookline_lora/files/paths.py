"""Where an adapter's folder is, by a name that a client or a command line gives."""

import os
from pathlib import Path, PurePosixPath
from typing import Final

from hookline.exceptions import ModelLoadError
from hookline.model_description import find_folder
from hookline_lora.exceptions import AdapterError
from hookline_lora.files import configuration

DEMO: Final = "demo:"
"""How the names of adapters begin that the demo model's package brings."""
_MODEL = "demo"
_FOLDER = "adapters"
_MOST_CHARS = 1024


def resolve_adapter_path(directory: str | Path | None, name: str) -> Path:
    """Returns the real path of an adapter's folder.

    Args:
        directory: The folder below which it must be; None allows only those of the demo
            model.
        name: `demo:NAME`, a path below the directory relative to it, or the same as an
            absolute path.

    Raises:
        AdapterError: It leads elsewhere, is no path, or there is no adapter.
    """
    if name.startswith(DEMO):
        directory, relative = _demo_folder(name), name.removeprefix(DEMO)
    else:
        relative = name
    if directory is None:
        raise AdapterError(name, "adapters are loaded only from below --lora-dir")
    return _below(Path(directory), name, relative)


def find_adapter(path: str) -> Path:
    """Returns the folder that a command line names: any path, or `demo:NAME`.

    Raises:
        AdapterError: There is no adapter.
    """
    if path.startswith(DEMO):
        return resolve_adapter_path(None, path)
    return _with_adapter(Path(path), path)


def _below(directory: Path, name: str, relative: str) -> Path:
    if not relative or len(relative) > _MOST_CHARS or not relative.isprintable():
        raise AdapterError(name[:100], "it is no path of a folder")
    root = os.path.realpath(directory)
    if ".." in PurePosixPath(relative).parts:
        raise AdapterError(name, "it leads out of the folder of adapters")
    try:
        real = os.path.realpath(os.path.join(root, relative))  # noqa: PTH118 - absolute
    except (OSError, ValueError) as error:
        raise AdapterError(name, "it is no path of a folder") from error
    if real == root or os.path.commonpath([real, root]) != root:
        raise AdapterError(name, "it leads out of the folder of adapters")
    return _with_adapter(Path(real), name)


def _with_adapter(folder: Path, name: str) -> Path:
    try:
        found = (folder / configuration.FILE).is_file()
    except (OSError, ValueError):  # such as a name that is too long
        found = False
    if not found:
        raise AdapterError(name, f"there is no folder with {configuration.FILE}")
    return folder


def _demo_folder(name: str) -> Path:
    try:
        return find_folder(_MODEL) / _FOLDER
    except ModelLoadError as error:
        raise AdapterError(name, "hookline-demo-model is not installed") from error
