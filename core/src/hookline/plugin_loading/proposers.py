"""Makes the proposer that a configuration names; imports no other."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hookline.config import EngineConfig, ExecutorKind
from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.payloads import ProposerContext
from hookline.plugin_loading import choice
from hookline.spec_decode.draft_cache import DraftCache
from hookline.spec_decode.proposer import (
    Proposer,
    has_layers,
    wants_hidden_states,
)
from hookline.spec_decode.target import TargetModel
from hookline.spec_decode.tree import tree_of
from hookline_registry import Failure, isolate

T = TypeVar("T")

PROPOSERS_GROUP = "hookline.proposers"


def load_proposer(config: EngineConfig) -> Proposer | None:
    """The proposer of an engine; None if it does not speculate.

    Raises:
        ConfigError: It is unknown or broken, or an option does not fit it.
    """
    if config.speculative is None:
        return None
    method = config.speculative.method
    context = ProposerContext(config=config, options=config.speculative.options)
    made = ask_plugin(method, "create_proposer", context, option=OPTION)
    needed = ["propose", "release"]
    if getattr(made, "needs_hidden_states", False):
        needed.append("prepare")
    missing = [name for name in needed if not hasattr(made, name)]
    if missing:
        raise ConfigError(
            OPTION, f"{method!r} makes no proposer: it has no {missing[0]}"
        )
    proposer: Proposer = made  # type: ignore[assignment]
    is_simulated = config.executor.kind is ExecutorKind.SIMULATED
    if is_simulated and wants_hidden_states(proposer):
        raise ConfigError(
            OPTION,
            f"{method!r} wants hidden states, and the simulated executor has none",
        )
    if is_simulated and tree_of(proposer) is not None:
        raise ConfigError(
            OPTION, f"{method!r} drafts trees, and the simulated executor has chains"
        )
    return proposer


def settle_drafts(config: EngineConfig, proposer: Proposer | None) -> EngineConfig:
    """With the number of drafts of the proposer's tree, if it has one.

    Raises:
        ConfigError: It was not given and there is no tree, or does not fit it.
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


def ask_plugin(method: str, hook: str, context: object, *, option: str) -> object:
    """What a method's plugin answers to a hook; None if it does not have it.

    Raises:
        ConfigError: It is unknown or broken, of `option`.
        HooklineError: Whatever of these it raised itself.
    """
    return choice.ask_plugin(PROPOSERS_GROUP, method, hook, context, option=option)


def prepare_proposer(
    proposer: Proposer, config: EngineConfig, target: TargetModel
) -> None:
    """Shows the loaded target to a proposer that wants its hidden states.

    Raises:
        ConfigError: The proposer does not fit it, or fails.
    """
    if wants_hidden_states(proposer):
        _introduce(config, proposer.prepare, target)


def bind_proposer(proposer: Proposer, config: EngineConfig, cache: DraftCache) -> None:
    """Gives a proposer with layers of its own their cache.

    Raises:
        ConfigError: It fails.
    """
    if has_layers(proposer):
        _introduce(config, proposer.bind, cache)


def _introduce(config: EngineConfig, method: Callable[[T], object], given: T) -> None:
    assert config.speculative is not None
    outcome = isolate(method, given)
    if isinstance(outcome, Failure):
        if isinstance(outcome.error, ConfigError):  # the user's mistake
            raise outcome.error
        raise ConfigError(
            OPTION,
            f"{config.speculative.method!r} cannot use the model: {outcome.summary}",
        ) from outcome.error
