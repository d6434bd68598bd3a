"""Checks grammars by llguidance, and matches outputs with them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from hookline.config.checks import refuse_unknown
from hookline_grammars.backend import (
    BackendContext,
    GrammarMatcher,
    RefusedGrammarError,
)
from hookline_grammars.json_text import JsonText, JsonTextMatcher
from hookline_grammars.spec import GrammarSpec
from hookline_grammars.spelling import LongestTokens
from hookline_llguidance.first_matchers import FirstMatchers
from hookline_llguidance.grammar_text import grammar_text

_LIMITS = LLParserLimits(verbose_errors=False)
"""Verbose errors repeat the whole grammar."""
_DEAD_ENDS = {"NoExtension", "NoExtensionBias"}
"""Stop reasons of a grammar that has reached a dead end."""
_MOST_TOKENS = 1 << 20
_JSON, _TEXT = b"J", b"T"
"""First byte of a compiled grammar: whether the whole text is JSON."""


class _Vocabulary:
    """What llguidance needs of a tokenizer; its end-of-text token is one of its own."""

    bos_token_id = None

    def __init__(self, context: BackendContext, spelling: LongestTokens) -> None:
        padding = [b""] * (context.vocab_size - len(context.tokens))
        self.tokens = [*context.tokens, *padding, b"\xff<end>"]
        self.eos_token_id = context.vocab_size
        self.special_token_ids = [self.eos_token_id]
        self._spelling = spelling

    def __call__(self, text: bytes) -> list[int]:
        return self._spelling.spell(text, _MOST_TOKENS)


class LLGuidanceBackend:
    """A `GrammarBackend` whose compiled grammars are texts."""

    def __init__(self, context: BackendContext) -> None:
        """Reads the vocabulary; raises `ConfigError` for options, as it has none."""
        option = "structured-outputs-config"
        refuse_unknown("llguidance", option, context.options, ())
        self._spelling = LongestTokens(context.tokens)
        self._json_text = JsonText(context)
        vocabulary = TokenizerWrapper(_Vocabulary(context, self._spelling))
        self._tokenizer = LLTokenizer(vocabulary, n_vocab=context.vocab_size + 1)
        self._vocab_size = context.vocab_size
        self._firsts = FirstMatchers(lambda data: self._made(data[1:].decode()))

    def compile(self, spec: GrammarSpec) -> bytes:
        try:
            text = grammar_text(spec)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise RefusedGrammarError(f"llguidance: {error}") from error
        if problem := self._made(text).get_error():
            raise RefusedGrammarError(f"llguidance: {problem}")
        return (_JSON if spec.kind.is_json else _TEXT) + text.encode()

    def matcher(self, data: bytes, stop_token_ids: Sequence[int]) -> GrammarMatcher:
        matcher = LLGuidanceMatcher(
            self._firsts.get(data).deep_copy(),
            self._vocab_size,
            stop_token_ids,
            self._spelling,
            partial(self._firsts.used, data),
        )
        if data.startswith(_JSON):
            return JsonTextMatcher(matcher, self._json_text)
        return matcher

    def _made(self, text: str) -> LLMatcher:
        return LLMatcher(self._tokenizer, text, log_level=0, limits=_LIMITS)


class LLGuidanceMatcher:
    """A `GrammarMatcher`; stop tokens are not part of the inner one's grammar."""

    def __init__(
        self,
        inner: LLMatcher,
        vocab_size: int,
        stop_token_ids: Sequence[int],
        spelling: LongestTokens,
        on_use: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._stops = np.array(stop_token_ids, np.int64)
        self._spelling = spelling
        # One bit more than the vocabulary has, for llguidance's end of the text.
        self._end = vocab_size
        self._mask = np.zeros(vocab_size // 32 + 1, np.int32)
        self._is_terminated = False
        self._on_use: Callable[[], None] | None = on_use

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        self._note_use()
        own = self._mask
        if self._inner.is_stopped():
            own[:] = 0
        else:
            self._inner.unsafe_compute_mask_ptr(own.ctypes.data, own.nbytes)
        self._check()
        bits = own.view(np.uint32)
        bits[self._end // 32] &= ~np.uint32(1 << self._end % 32)
        if self._inner.is_accepting():
            for stop in self._stops.tolist():
                bits[stop // 32] |= np.uint32(1 << stop % 32)
        mask[:] = own[: len(mask)]

    def accept(self, token_id: int) -> bool:
        self._note_use()
        if self._is_terminated:
            return False
        if token_id in self._stops:
            self._is_terminated = self._inner.is_accepting()
            return self._is_terminated
        if self._inner.is_stopped() or self._inner.validate_tokens([token_id]) != 1:
            self._check()
            return False
        return bool(self._inner.consume_token(token_id))

    def _note_use(self) -> None:
        if (on_use := self._on_use) is not None:
            self._on_use = None
            on_use()

    def _check(self) -> None:
        """Raises `RefusedGrammarError` if a limit of the library has been exceeded."""
        if (problem := self._inner.get_error()) and not self._is_dead_end:
            raise RefusedGrammarError(f"llguidance: {problem}")

    @property
    def _is_dead_end(self) -> bool:
        return self._inner.stop_reason() in _DEAD_ENDS

    def rollback(self, count: int) -> None:
        if self._is_terminated:
            self._is_terminated = False
            count -= 1
        if count:
            self._inner.rollback(count)

    @property
    def is_terminated(self) -> bool:
        return self._is_terminated

    def forced(self, most: int) -> list[int]:
        if self._is_terminated or self._inner.is_stopped():
            return []
        return self._spelling.spell(self._inner.compute_ff_bytes(), most)
