"""Makes the proposer that a configuration names; imports no other."""

from hookline import hookspecs
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.payloads import ProposerContext
from hookline.spec_decode.config import OPTION
from hookline.spec_decode.proposer import Proposer
from hookline_registry import BrokenPluginError, PluginRegistry, RegistryError

PROPOSERS_GROUP = "hookline.proposers"


def load_proposer(config: EngineConfig) -> Proposer | None:
    """The proposer of an engine; None if it does not speculate.

    Raises:
        ConfigError: It is unknown or broken, or an option does not fit it.
    """
    if config.speculative is None:
        return None
    method = config.speculative.method
    registry = PluginRegistry("hookline", hookspecs)
    context = ProposerContext(config=config, options=config.speculative.options)
    try:
        plugin = registry.load(PROPOSERS_GROUP, method)
        made = registry.create(plugin, "create_proposer", context=context)
    except BrokenPluginError as error:
        if isinstance(error.__cause__, ConfigError):  # the user's mistake
            raise error.__cause__ from None
        raise ConfigError(OPTION, str(error)) from error
    except RegistryError as error:
        raise ConfigError(OPTION, str(error)) from error
    missing = [name for name in ("propose", "release") if not hasattr(made, name)]
    if missing:
        raise ConfigError(
            OPTION, f"{method!r} makes no proposer: it has no {missing[0]}"
        )
    proposer: Proposer = made  # type: ignore[assignment]
    if getattr(proposer, "needs_hidden_states", False):
        raise ConfigError(
            OPTION, f"{method!r} wants hidden states, which no executor gives yet"
        )
    return proposer
