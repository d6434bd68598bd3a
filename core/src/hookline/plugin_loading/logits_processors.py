"""Imports the logits processors that a configuration names, and no others."""

from collections.abc import Callable

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.step.capabilities import ExecutorCapabilities
from hookline_registry import RegistryError, load_value

LOGITS_PROCESSORS_GROUP = "hookline.logits_processors"
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
    """Imports the class or function of an entry point.

    Raises:
        ConfigError: It is not installed, cannot be imported or is not callable.
    """
    try:
        factory = load_value(LOGITS_PROCESSORS_GROUP, name)
    except RegistryError as error:
        raise ConfigError(OPTION, str(error)) from error
    if not callable(factory):
        raise ConfigError(OPTION, f"{name!r} is neither a class nor a function")
    return factory
