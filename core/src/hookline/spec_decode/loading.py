"""Makes the proposer that a configuration names; imports no other."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from hookline import plugin_choice as choice
from hookline.config import EngineConfig, ExecutorKind
from hookline.exceptions import ConfigError
from hookline.payloads import ProposerContext
from hookline.spec_decode.config import OPTION
from hookline.spec_decode.proposer import (
    Proposer,
    has_layers,
    wants_hidden_states,
)
from hookline.spec_decode.target import TargetModel
from hookline_registry import Failure, isolate

if TYPE_CHECKING:  # a cache is made of tensors, which loading needs none of
    from hookline.spec_decode.draft_cache import DraftCache

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
    return proposer


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


def bind_proposer(
    proposer: Proposer, config: EngineConfig, cache: "DraftCache"
) -> None:
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
