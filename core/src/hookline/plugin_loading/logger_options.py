"""Checks the options of a logger against those that it declares."""

from collections.abc import Iterable

from hookline.did_you_mean import unknown
from hookline.exceptions import ConfigError
from hookline.payloads import CliOptions
from hookline_registry import PluginRegistry


class _Declared(CliOptions):
    """Collects the keys that a logger declares."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def add(self, key: str, *, help: str, default: str | None = None) -> None:  # noqa: A002, ARG002
        self.keys.append(key)


def check_logger_options(
    registry: PluginRegistry, plugin: str, given: Iterable[str]
) -> None:
    """Checks option keys; loggers without `add_cli_options` check them themselves.

    Args:
        registry: The registry of the logger.
        plugin: The logger's name in the registry.
        given: Keys of `--stat-logger-option`.

    Raises:
        ConfigError: The logger declares its options, and a key is not among them.
    """
    declared = _Declared()
    registry.call_one(plugin, "add_cli_options", options=declared)
    for key in given if declared.keys else ():
        if key not in declared.keys:
            option = f"{plugin}.{key}"
            raise ConfigError(option, unknown("option", key, sorted(declared.keys)))
