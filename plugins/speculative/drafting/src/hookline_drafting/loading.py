"""Loads the proposer that a configuration names, and no other plugin."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar, cast

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline.frozen import frozen_json
from hookline.payloads import ExtensionContext
from hookline.plugin_loading.made import Made
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import PROPOSER
from hookline_drafting.capabilities import ProposerCapabilities
from hookline_drafting.config import SpeculativeConfig
from hookline_drafting.contexts import ProposerContext
from hookline_drafting.draft_cache import DraftCache
from hookline_drafting.proposer import (
    CachingProposer,
    HiddenStateProposer,
    Proposer,
    has_layers,
    needs_hidden_states,
)
from hookline_drafting.target import TargetModel
from hookline_drafting.tree import tree_of
from hookline_registry import Failure, isolate

T = TypeVar("T")


def load_proposer(
    context: ExtensionContext, speculative: SpeculativeConfig
) -> Proposer:
    """Returns the proposer of an engine.

    Args:
        context: The configuration, and what the executor offers.
        speculative: The extension's section of the configuration.

    Raises:
        ConfigError: The plugin is unknown or broken, an option is invalid, or the
            proposer needs what the executor does not offer.
    """
    method, config = speculative.method, context.config
    given = ProposerContext(
        config=deepcopy(config),  # its maps can be changed
        options=frozen_json(speculative.options),
        num_speculative_tokens=speculative.num_speculative_tokens,
    )
    made = call_plugin(PROPOSER, method, given, option=OPTION)
    proposer = _checked(method, made)
    executor = config.executor_name
    if needs_hidden_states(proposer) and not context.has_hidden_states:
        raise ConfigError(
            OPTION,
            f"{method!r} needs hidden states, which the executor {executor!r} lacks",
        )
    if tree_of(proposer) is not None and not context.has_draft_trees:
        raise ConfigError(
            OPTION,
            f"{method!r} drafts trees; the executor {executor!r} supports chains only",
        )
    return proposer


def _checked(method: str, value: object) -> Proposer:
    """Returns the proposer if it has every method that its capabilities require."""
    made = Made(plugin=method, option=OPTION, kind="proposer", value=value)
    made.require(
        Proposer,
        lambda proposer: ProposerCapabilities(
            needs_hidden_states=bool(getattr(proposer, "needs_hidden_states", False)),
            draft_parents=getattr(proposer, "draft_parents", None),
            feature_layers=tuple(getattr(proposer, "feature_layers", ())),
            kv_layers=tuple(getattr(proposer, "kv_layers", ())),
        ),
    )
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


def settle_drafts(
    speculative: SpeculativeConfig, proposer: Proposer
) -> SpeculativeConfig:
    """Sets `num_speculative_tokens` to the size of the proposer's tree, if any.

    Raises:
        ConfigError: The number is missing for chains, or differs from the tree's.
    """
    given = speculative.num_speculative_tokens
    if (tree := tree_of(proposer)) is None:
        if given is None:
            raise ConfigError(OPTION, "num_speculative_tokens is missing")
        return speculative
    number = len(tree.parents)
    if given not in {None, number}:
        raise ConfigError(
            OPTION,
            f"the tree has {number} drafts: num_speculative_tokens must be {number} "
            f"or be left out, and not {given!r}",
        )
    return replace(speculative, num_speculative_tokens=number)


def prepare_proposer(proposer: Proposer, method: str, target: TargetModel) -> None:
    """Calls `prepare` of a proposer that needs the target's hidden states.

    Raises:
        ConfigError: The proposer does not fit the target, or fails.
    """
    if needs_hidden_states(proposer):
        _call(method, proposer.prepare, target)
        _checked(method, proposer)


def bind_proposer(proposer: Proposer, method: str, cache: DraftCache) -> None:
    """Calls `bind` of a proposer with attention layers, with their KV cache.

    Raises:
        ConfigError: The proposer fails.
    """
    if has_layers(proposer):
        _call(method, proposer.bind, cache)


def _call(name: str, method: Callable[[T], object], argument: T) -> None:
    outcome = isolate(method, argument)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        raise ConfigError(
            OPTION, f"{name!r} cannot use the model: {outcome.summary}"
        ) from outcome.error
