"""Makes the logits processors that a configuration names; imports no other."""

from typing import cast

from hookline.exceptions import ConfigError
from hookline.worker.sampling.guarded_processor import GuardedProcessor
from hookline.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline_registry import Failure, RegistryError, isolate, load_value

GROUP = "hookline.logits_processors"
OPTION = "logits-processor"


def load_logits_processors(context: LogitsProcessorContext) -> list[GuardedProcessor]:
    """Creates the processors of `config.logits_processors`, in their order.

    Raises:
        ConfigError: One is not installed or broken, or refuses the configuration.
    """
    return [_load(name, context) for name in context.config.logits_processors]


def import_logits_processors(names: tuple[str, ...]) -> None:
    """Imports the named processors, so that a mistake is found before a model loads.

    Raises:
        ConfigError: One is not installed, named twice or cannot be imported.
    """
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(OPTION, f"{name!r} is named twice")
        _factory(name)


def _factory(name: str) -> object:
    try:
        return load_value(GROUP, name)
    except RegistryError as error:
        raise ConfigError(OPTION, str(error)) from error


def _load(name: str, context: LogitsProcessorContext) -> GuardedProcessor:
    factory = _factory(name)
    if not callable(factory):
        raise ConfigError(OPTION, f"{name!r} is not a class or function")
    made = isolate(factory, context)
    if isinstance(made, Failure):
        if isinstance(made.error, ConfigError):
            raise made.error
        reason = f"{name!r} cannot be created: {made.summary}"
        raise ConfigError(OPTION, reason) from made.error
    if isinstance(made, type) or not isinstance(made, LogitsProcessor):
        members = "needs_prepare, admit, release, prepare, apply"
        raise ConfigError(OPTION, f"{name!r} creates no LogitsProcessor ({members})")
    return GuardedProcessor(name, cast("LogitsProcessor", made))
