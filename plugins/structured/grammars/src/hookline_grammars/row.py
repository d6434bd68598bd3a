"""The matcher of one batch row, which follows the row's tokens."""

from hookline.engine.worker.input_batch import Int32
from hookline.step import AdmittedSequence
from hookline.structured_outputs import STRUCTURED_OUTPUTS
from hookline_grammars.allowance import TOKEN_NS
from hookline_grammars.backend import GrammarMatcher
from hookline_grammars.compiled import GRAMMAR
from hookline_grammars.own_backends import MatcherSource


class GrammarRow:
    """What is known of one request with a grammar.

    Attributes:
        index: Its batch row.
        spent_ns: Processor time that its matcher has taken.
        drawn_ns: What of it was drawn on the common store.
        matcher: Its matcher; None before the first step.
        num_matched: Tokens, prompt included, that the matcher has passed.
    """

    __slots__ = (
        "_matchers",
        "_sequence",
        "drawn_ns",
        "index",
        "matcher",
        "num_matched",
        "spent_ns",
    )

    def __init__(
        self, index: int, sequence: AdmittedSequence, matchers: MatcherSource
    ) -> None:
        self.index = index
        self.spent_ns = self.drawn_ns = 0
        self._sequence = sequence
        self._matchers = matchers
        self.matcher: GrammarMatcher | None = None
        self.num_matched = sequence.num_prompt_tokens

    @property
    def excess_ns(self) -> int:
        """What it has taken beyond the time of its tokens."""
        outputs = self.num_matched - self._sequence.num_prompt_tokens
        return max(0, self.spent_ns - TOKEN_NS * outputs)

    def advanced(self, tokens: Int32) -> GrammarMatcher:
        """Returns the matcher after all of the row's tokens, prompt included.

        Raises:
            ValueError: The grammar does not allow one of them.
            RefusedGrammarError: See `GrammarMatcher.accept`; `TimeoutError` likewise.
        """
        matcher = self.matcher or self._begun()
        for token_id in tokens[self.num_matched :].tolist():
            if not matcher.accept(token_id):
                raise ValueError(f"the grammar does not allow token {token_id}")
        self.num_matched = len(tokens)
        return matcher

    def begin_again(self) -> None:
        """Lets the next call of `advanced` pass all tokens with a new matcher."""
        self.matcher, self.num_matched = None, self._sequence.num_prompt_tokens

    def _begun(self) -> GrammarMatcher:
        grammar = GRAMMAR.read(self._sequence.sections)
        params = self._sequence.params
        assert grammar is not None
        reasoning = None
        if params.structured_outputs is not None:
            reasoning = STRUCTURED_OUTPUTS.typed(params.structured_outputs).reasoning
        self.matcher = self._matchers.matcher(grammar, params.stop_token_ids, reasoning)
        return self.matcher
