"""Matchers of grammars in the rank that samples."""

from collections.abc import Sequence

from hookline.step import StepPlan
from hookline.structured_outputs import ReasoningSpan
from hookline_grammars.backend import GrammarMatcher
from hookline_grammars.compiled import GRAMMAR, CompiledGrammar
from hookline_grammars.own_backends import OwnBackends
from hookline_grammars.settings import GrammarSettings


class RankGrammars:
    """A `MatcherSource` whose backends are created when their first grammar comes."""

    def __init__(self, settings: GrammarSettings) -> None:
        self._settings = settings
        self._own: OwnBackends | None = None

    def expect(self, plan: StepPlan) -> None:
        """Creates the backends of a step's new grammars, unless they exist.

        What creating one takes must not count as time of an output that follows its
        grammar.

        Raises:
            ConfigError: A backend cannot be created; it could where grammars are
                compiled.
        """
        for each in plan.admitted:
            if (grammar := GRAMMAR.read(each.sections)) is not None:
                self._own = self._own or OwnBackends(self._settings)
                self._own.backend(grammar.backend)

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],
        reasoning: ReasoningSpan | None = None,
    ) -> GrammarMatcher:
        """Implements `MatcherSource`."""
        assert self._own is not None, "expect comes first"
        return self._own.matcher(grammar, stop_token_ids, reasoning)
