"""The grammar backends of one process, which make matchers of compiled grammars."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from hookline.structured_outputs import ReasoningSpan
from hookline_grammars.backend import BackendContext, GrammarBackend, GrammarMatcher
from hookline_grammars.compiled import CompiledGrammar
from hookline_grammars.loading import make_backend
from hookline_grammars.reasoning_matcher import ReasoningMatcher, SpanSpelling
from hookline_grammars.settings import GrammarSettings


class MatcherSource(Protocol):
    """Creates matchers for compiled grammars; used by the thread that fills masks."""

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],
        reasoning: ReasoningSpan | None = None,
    ) -> GrammarMatcher:
        """Returns a matcher at the start of a text.

        Args:
            grammar: The grammar.
            stop_token_ids: Tokens that end a text of a model that has no such tokens
                itself.
            reasoning: Reasoning that may precede what the grammar describes.
        """


class OwnBackends:
    """Backends of this process, which are created when they are needed.

    Attributes:
        tokens: Bytes of each token id.
    """

    def __init__(self, settings: GrammarSettings) -> None:
        """Reads the tokenizer, which imports transformers and takes half a second."""
        from hookline.tokenizer import Tokenizer  # noqa: PLC0415
        from hookline_grammars.vocabulary import token_bytes  # noqa: PLC0415

        self._settings = settings
        tokenizer = Tokenizer.load(settings.tokenizer)
        self.tokens = token_bytes(tokenizer, settings.vocab_size)
        encode = partial(tokenizer.encode, add_special_tokens=False)
        self._spans = SpanSpelling(encode, self.tokens)
        self._context = BackendContext(
            tokens=self.tokens,
            vocab_size=settings.vocab_size,
            eos_token_ids=settings.eos_token_ids,
            options=settings.options,
        )
        self._backends: dict[int, GrammarBackend] = {}

    def backend(self, index: int) -> GrammarBackend:
        """Returns a backend by its place among the configured ones.

        Raises:
            ConfigError: It cannot be created.
        """
        if (known := self._backends.get(index)) is None:
            known = make_backend(self._settings.backends[index], self._context)
            self._backends[index] = known
        return known

    def matcher(
        self,
        grammar: CompiledGrammar,
        stop_token_ids: Sequence[int],
        reasoning: ReasoningSpan | None = None,
    ) -> GrammarMatcher:
        """Implements `MatcherSource`."""
        stops = self._settings.eos_token_ids or stop_token_ids
        matcher = self.backend(grammar.backend).matcher(grammar.data, stops)
        if reasoning is None:
            return matcher
        return ReasoningMatcher(
            matcher, self._spans.span(reasoning), self._spans.tokens, stops
        )
