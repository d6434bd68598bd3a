"""Where the files of an adapter lie that a client names."""

from collections.abc import Iterable
from pathlib import Path

from hookline_lora.adapter import AdapterRef
from hookline_lora.files import resolve_adapter_path
from hookline_server.api_error import ApiError


def resolve(name: str, directory: str | None) -> str | None:
    """Returns the folder of a name that a request has; None if there is none."""
    if directory is None:
        return None
    return resolve_adapter_path(directory, name)


def folder_of_client(
    path: str, directory: str | None, known: Iterable[AdapterRef]
) -> str:
    """Returns a path that a client may load from.

    Raises:
        ApiError: It is neither below the folder of adapters nor one that was loaded.
    """
    if path in {ref.path for ref in known}:
        return path
    if directory is None:
        raise _forbidden("clients may load adapters below --lora-dir, which is not set")
    root, given = Path(directory).resolve(), Path(directory, path)
    try:
        relative = given.resolve().relative_to(root)
    except (ValueError, OSError):
        raise _forbidden("lora_path lies outside of --lora-dir") from None
    if (found := resolve_adapter_path(directory, str(relative))) is None:
        message = f"there is no adapter in {str(relative)[:200]!r} below --lora-dir"
        raise ApiError(404, message, code="adapter_not_found", param="lora_path")
    return found


def _forbidden(message: str) -> ApiError:
    return ApiError(403, message, code="path_not_allowed", param="lora_path")
