"""Finds the usual logits processors and those that a configuration names."""

from collections.abc import Callable, Collection, Mapping

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError, RequestError
from hookline.plugin_loading.extensions import ExecutorCapabilities
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import LOGITS_PROCESSOR
from hookline.sampling_values import SamplingValues
from hookline_registry import RegistryError, installed

OPTION = "logits-processor"
USUAL_BEFORE = ("penalties", "logit_bias", "allowed_token_ids")
USUAL_AFTER = ("min_tokens", "bad_words")
"""Processors of sampling parameters: those before and after extensions' processors."""
_DISTRIBUTION = "hookline-processors"
_NEEDED: Mapping[str, Callable[[SamplingValues], object]] = {
    "penalties": lambda params: params.has_penalties,
    "logit_bias": lambda params: params.logit_bias,
    "allowed_token_ids": lambda params: params.allowed_token_ids is not None,
    "min_tokens": lambda params: (
        params.min_tokens > 1 or (params.ignore_eos and params.structured_outputs)
    ),
    "bad_words": lambda params: params.bad_words,
}
"""For each of them, whether a request needs it."""


def usual_installed() -> frozenset[str]:
    """Returns the names of the usual processors that are installed and allowed."""
    found = {plugin.name for plugin in installed(LOGITS_PROCESSOR.group)}
    return frozenset(found.intersection(_NEEDED))


def refuse_what_needs(missing: Collection[str], params: SamplingValues) -> None:
    """Raises `RequestError` if a request needs one of these usual processors."""
    for name in missing:
        if _NEEDED[name](params):
            raise RequestError(
                f"{name} needs the logits processor of this name, which is not "
                f"installed or denied (pip install {_DISTRIBUTION})",
                param=name,
            )


def usual_missing() -> tuple[str, ...]:
    """Returns the names of the usual processors that requests cannot have."""
    return tuple(sorted(_NEEDED.keys() - usual_installed()))


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
        if name in _NEEDED:
            raise ConfigError(OPTION, f"{name!r} is always used")
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
