"""Imports the logits processors that a configuration names, and no others."""

from collections.abc import Callable

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import LOGITS_PROCESSOR
from hookline.step.capabilities import ExecutorCapabilities
from hookline_registry import RegistryError

OPTION = "logits-processor"


def check_logits_processors(
    config: EngineConfig, capabilities: ExecutorCapabilities
) -> None:
    """Imports the chosen processors, so that mistakes are found before a model loads.

    Raises:
        ConfigError: One is not installed, named twice or cannot be imported, or the
            executor has no logits.
    """
    names = config.logits_processors
    if names and not capabilities.logits:
        raise ConfigError(OPTION, f"the executor {config.executor_name} has no logits")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(OPTION, f"{name!r} is named twice")
        load_processor_factory(name)


def load_processor_factory(name: str) -> Callable[..., object]:
    """Imports a plugin and returns what calls its hook, with the argument `context`.

    Raises:
        ConfigError: It is not installed, cannot be imported or has no factory.
    """
    try:
        return hook_of(LOGITS_PROCESSOR, name)
    except RegistryError as error:
        raise ConfigError(OPTION, str(error)) from error
