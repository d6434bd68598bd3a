"""Loads the proposer that a configuration names, and no other plugin."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar, cast

from hookline.config.engine import EngineConfig
from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.frozen import frozen_json
from hookline.payloads import ProposerContext
from hookline.plugin_loading.made import Made
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import PROPOSER
from hookline.spec_decode.capabilities import ProposerCapabilities
from hookline.spec_decode.draft_cache import DraftCache
from hookline.spec_decode.proposer import (
    CachingProposer,
    HiddenStateProposer,
    Proposer,
    has_layers,
    needs_hidden_states,
)
from hookline.spec_decode.target import TargetModel
from hookline.spec_decode.tree import tree_of
from hookline.step.capabilities import ExecutorCapabilities
from hookline_registry import Failure, isolate

T = TypeVar("T")


def load_proposer(
    config: EngineConfig, capabilities: ExecutorCapabilities
) -> Proposer | None:
    """Returns the proposer of an engine, or None if it does not speculate.

    Args:
        config: The engine's configuration.
        capabilities: Capabilities of the executor.

    Raises:
        ConfigError: The plugin is unknown or broken, an option is invalid, or the
            proposer needs what the executor does not offer.
    """
    if config.speculative is None:
        return None
    method = config.speculative.method
    context = ProposerContext(
        config=deepcopy(config),  # its maps can be changed
        options=frozen_json(config.speculative.options),
    )
    made = call_plugin(PROPOSER, method, context, option=OPTION)
    proposer = _checked(method, made)
    executor = config.executor_name
    if needs_hidden_states(proposer) and not capabilities.hidden_states:
        raise ConfigError(
            OPTION,
            f"{method!r} needs hidden states, which the executor {executor!r} lacks",
        )
    if tree_of(proposer) is not None and not capabilities.draft_trees:
        raise ConfigError(
            OPTION,
            f"{method!r} drafts trees; the executor {executor!r} supports chains only",
        )
    return proposer


def _checked(method: str, value: object) -> Proposer:
    """Returns the proposer if it has every method that its capabilities require."""
    made = Made(plugin=method, option=OPTION, kind="proposer", value=value)
    made.require(Proposer)
    capabilities = made.capabilities(ProposerCapabilities)
    if capabilities.needs_hidden_states:
        made.require(HiddenStateProposer)
    if capabilities.kv_layers:
        made.require(CachingProposer)
    if capabilities.feature_layers and not capabilities.needs_hidden_states:
        raise ConfigError(
            OPTION, f"{method!r} has feature_layers, but not needs_hidden_states"
        )
    return cast("Proposer", value)


def settle_drafts(config: EngineConfig, proposer: Proposer | None) -> EngineConfig:
    """Sets `num_speculative_tokens` to the size of the proposer's tree, if any.

    Raises:
        ConfigError: The number is missing for chains, or differs from the tree's.
    """
    if proposer is None or (speculative := config.speculative) is None:
        return config
    given = speculative.num_speculative_tokens
    if (tree := tree_of(proposer)) is None:
        if given is None:
            raise ConfigError(OPTION, "num_speculative_tokens is missing")
        return config
    number = len(tree.parents)
    if given not in {None, number}:
        raise ConfigError(
            OPTION,
            f"the tree has {number} drafts: num_speculative_tokens must be {number} "
            f"or be left out, and not {given!r}",
        )
    settled = replace(speculative, num_speculative_tokens=number)
    return replace(config, speculative=settled)


def prepare_proposer(
    proposer: Proposer, config: EngineConfig, target: TargetModel
) -> None:
    """Calls `prepare` of a proposer that needs the target's hidden states.

    Raises:
        ConfigError: The proposer does not fit the target, or fails.
    """
    if needs_hidden_states(proposer):
        assert config.speculative is not None
        _call(config, proposer.prepare, target)
        _checked(config.speculative.method, proposer)


def bind_proposer(proposer: Proposer, config: EngineConfig, cache: DraftCache) -> None:
    """Calls `bind` of a proposer with attention layers, with their KV cache.

    Raises:
        ConfigError: The proposer fails.
    """
    if has_layers(proposer):
        _call(config, proposer.bind, cache)


def _call(config: EngineConfig, method: Callable[[T], object], argument: T) -> None:
    assert config.speculative is not None
    outcome = isolate(method, argument)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        raise ConfigError(
            OPTION,
            f"{config.speculative.method!r} cannot use the model: {outcome.summary}",
        ) from outcome.error
