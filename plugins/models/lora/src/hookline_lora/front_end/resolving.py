"""Where the files of an adapter lie that a client names."""

import logging
from collections.abc import Iterable
from pathlib import Path

from hookline.exceptions import HooklineError
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import ADAPTER_RESOLVER
from hookline_lora.adapter import AdapterRef
from hookline_lora.config import OPTION
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.paths import DEMO, resolve_adapter_path
from hookline_registry import installed
from hookline_server.api_error import ApiError

_log = logging.getLogger(__name__)


def resolve(name: str, directory: str | None) -> str | None:
    """Returns the folder that a model's name means; None if there is none.

    Adapters lie below the folder of adapters, or where an installed resolver finds
    them, which may take long.
    """
    if directory is not None:
        try:
            return str(resolve_adapter_path(directory, name))
        except AdapterError:
            pass
    for resolver in installed(ADAPTER_RESOLVER.group):
        try:
            found = call_plugin(ADAPTER_RESOLVER, resolver.name, name, option=OPTION)
        except HooklineError as error:
            _log.error("resolver %s fails: %s", resolver.name, error)
            continue
        if isinstance(found, Path):
            return str(found)
    return None


def folder_of_client(
    path: str, directory: str | None, known: Iterable[AdapterRef]
) -> str:
    """Returns a path that a client may load from.

    Args:
        path: What the client names.
        directory: The folder of adapters; None without one.
        known: Adapters that have been loaded, whose folders may be read again.

    Raises:
        ApiError: It is none, or there is no adapter.
    """
    if path in {ref.path for ref in known}:
        return path
    if directory is None and not path.startswith(DEMO):
        raise ApiError(
            403,
            "clients may load adapters from below --lora-dir, which is not set",
            code="path_not_allowed",
            param="lora_path",
        )
    try:
        return str(resolve_adapter_path(directory, path))
    except AdapterError as error:
        code = "adapter_not_found"
        raise ApiError(404, str(error), code=code, param="lora_path") from error
