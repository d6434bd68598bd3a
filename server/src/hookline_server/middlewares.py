"""The operator's own middlewares around the handlers of the API."""

from collections.abc import Iterable
from inspect import iscoroutinefunction
from typing import cast

from aiohttp.typedefs import Middleware

from hookline.exceptions import ConfigError
from hookline_registry.exceptions import BrokenPluginError
from hookline_registry.loading import import_value, in_working_directory

_MARK = "__middleware_version__"
"""What `aiohttp.web.middleware` sets."""


def load_middlewares(paths: Iterable[str]) -> tuple[Middleware, ...]:
    """Imports middlewares, each by `module:name`, or `module.name` as in vLLM.

    A module that is not installed may be in the working directory.

    Raises:
        ConfigError: One cannot be imported, or is no middleware of aiohttp.
    """
    return tuple(map(_loaded, paths))


def _loaded(path: str) -> Middleware:
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not (module and name):
        raise ConfigError("middleware", f"{path!r} is not module:name")
    try:
        with in_working_directory(module):
            found = import_value(path, f"{module}:{name}")
    except BrokenPluginError as error:
        raise ConfigError("middleware", error.reason) from error
    if getattr(found, _MARK, None) != 1 or not iscoroutinefunction(found):
        raise ConfigError(
            "middleware",
            f"{path} is no middleware of aiohttp: an `async def` of a request and a "
            "handler, with the decorator aiohttp.web.middleware",
        )
    return cast("Middleware", found)
