"""Matchers of grammars in the rank that samples."""

from collections.abc import Sequence

from hookline.step.plan import StepPlan
from hookline.structured.backend import GrammarMatcher
from hookline.structured.own_backends import OwnBackends
from hookline.structured.settings import GrammarSettings
from hookline.structured_outputs import CompiledGrammar, ReasoningSpan


class RankGrammars:
    """A `MatcherSource` whose backends are created when the first grammar comes."""

    def __init__(self, settings: GrammarSettings) -> None:
        self._settings = settings
        self._own: OwnBackends | None = None

    def expect(self, plan: StepPlan) -> None:
        """Creates the backends before a step that needs them for the first time.

        Raises:
            ConfigError: A backend cannot be created; it could where grammars are
                compiled.
        """
        if self._own is None and any(each.grammar for each in plan.admitted):
            self._own = OwnBackends(self._settings)

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],
        reasoning: ReasoningSpan | None = None,
    ) -> GrammarMatcher:
        """Implements `MatcherSource`."""
        assert self._own is not None, "expect comes first"
        return self._own.matcher(grammar, stop_token_ids, reasoning)
