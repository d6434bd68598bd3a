"""Follows a grammar that begins only behind the reasoning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from hookline.structured_outputs import ReasoningSpan
from hookline_grammars.backend import GrammarMatcher
from hookline_grammars.many_matchers import accept_tokens, fill_masks

if TYPE_CHECKING:  # what only compiles need not load numpy
    import numpy as np
    import numpy.typing as npt

_NONE, _ALL = 0, -1
_BITS = 32
_MOST_KNOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTokens:
    """A `ReasoningSpan` as tokens.

    Attributes:
        begin: Tokens that begin the reasoning; none if it has begun.
        is_optional: Whether they begin it only if the model writes them.
        end_id: The special token that ends the reasoning; None if its end is text.
        end: The text that ends it, however tokens spell it; empty if that is a token.
        lead: Tokens between the reasoning and what the grammar describes.
    """

    begin: tuple[int, ...]
    is_optional: bool
    end_id: int | None
    end: bytes
    lead: tuple[int, ...]


class SpanSpelling:
    """Spells spans by the tokens of one model.

    Attributes:
        tokens: The bytes of each token by its id; empty for special tokens.
    """

    def __init__(
        self, encode: Callable[[str], Sequence[int]], tokens: Sequence[bytes]
    ) -> None:
        self.tokens = tokens
        self._encode = encode
        self._known: dict[ReasoningSpan, SpanTokens] = {}

    def span(self, span: ReasoningSpan) -> SpanTokens:
        """Returns the tokens of a span; those of the last ones are kept."""
        if (known := self._known.get(span)) is not None:
            return known
        end_ids = self._encode(span.end)
        is_special = len(end_ids) == 1 and not self.tokens[end_ids[0]]
        spelled = SpanTokens(
            begin=tuple(self._encode(span.begin)) if span.begin else (),
            is_optional=span.is_optional,
            end_id=end_ids[0] if is_special else None,
            end=b"" if is_special else span.end.encode(),
            lead=tuple(self._encode(span.lead)) if span.lead else (),
        )
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[span] = spelled
        return spelled


class _Phase(Enum):
    BEGIN = 0
    REASONING = 1
    LEAD = 2
    GRAMMAR = 3


_State = tuple[_Phase, int, bytes]
"""The phase; tokens of `begin` or `lead` so far; the last bytes of the reasoning."""

_REASONS: _State = (_Phase.REASONING, 0, b"")
_MATCHES: _State = (_Phase.GRAMMAR, 0, b"")


class ReasoningMatcher:
    """A `GrammarMatcher` that lets the model reason first.

    Reasoning is free, but cannot end the text. Where it is optional, the first token
    decides: one that the grammar allows, or the one that begins the reasoning. What a
    token has behind the bytes that end the reasoning is not matched.
    """

    def __init__(
        self,
        inner: GrammarMatcher,
        span: SpanTokens,
        tokens: Sequence[bytes],
        stop_token_ids: Sequence[int],
    ) -> None:
        """Starts before the reasoning.

        Args:
            inner: The grammar's matcher.
            span: How the reasoning begins and ends.
            tokens: The bytes of each token by its id.
            stop_token_ids: Tokens that end a text.
        """
        self._inner = inner
        self._span = span
        self._tokens = tokens
        self._stops = frozenset(stop_token_ids) - {span.end_id}
        self._state = (_Phase.BEGIN, 0, b"") if span.begin else _REASONS
        self._earlier: list[_State] = []
        self._num_inner = 0

    @property
    def _in_grammar(self) -> bool:
        return self._num_inner > 0 or self._state is _MATCHES

    @property
    def _is_undecided(self) -> bool:
        """Whether the next token decides if there is reasoning."""
        phase, written, _ = self._state
        return phase is _Phase.BEGIN and not written and self._span.is_optional

    def fill(self, mask: "npt.NDArray[np.int32]") -> None:
        if self._in_grammar:
            self._inner.fill(mask)
            return
        phase, written, _ = self._state
        if phase is _Phase.REASONING:
            mask[:] = _ALL
            for token_id in self._stops:
                _set(mask, token_id, is_allowed=False)
            return
        if self._is_undecided:
            self._inner.fill(mask)
        else:
            mask[:] = _NONE
        _set(mask, self._fixed[written], is_allowed=True)

    @classmethod
    def fill_many(
        cls,
        matchers: "Sequence[ReasoningMatcher]",
        masks: "npt.NDArray[np.int32]",
        rows: Sequence[int],
    ) -> None:
        follow = [at for at, each in enumerate(matchers) if each._in_grammar]  # noqa: SLF001
        inner = [matchers[at]._inner for at in follow]  # noqa: SLF001
        fill_masks(inner, masks, [rows[at] for at in follow])
        for row, matcher in zip(rows, matchers, strict=True):
            if not matcher._in_grammar:  # noqa: SLF001
                matcher.fill(masks[row])

    @classmethod
    def accept_many(
        cls, matchers: "Sequence[ReasoningMatcher]", token_ids: Sequence[int]
    ) -> Sequence[bool]:
        follow = [at for at, each in enumerate(matchers) if each._in_grammar]  # noqa: SLF001
        inner = [matchers[at]._inner for at in follow]  # noqa: SLF001
        found = accept_tokens(inner, [token_ids[at] for at in follow])
        accepted = dict(zip(follow, found, strict=True))
        for at, is_allowed in accepted.items():
            matchers[at]._num_inner += is_allowed  # noqa: SLF001
        return [
            accepted[at] if at in accepted else matcher.accept(token_ids[at])
            for at, matcher in enumerate(matchers)
        ]

    def accept(self, token_id: int) -> bool:
        if self._in_grammar or (self._is_undecided and not self._begins(token_id)):
            if self._inner.accept(token_id):
                self._num_inner += 1
                return True
            if self._in_grammar:
                return False
        following = self._after(token_id)
        if following is None:
            return False
        self._earlier.append(self._state)
        self._state = following
        return True

    def rollback(self, count: int) -> None:
        of_inner = min(count, self._num_inner)
        if of_inner:
            self._inner.rollback(of_inner)
            self._num_inner -= of_inner
        for _ in range(count - of_inner):
            self._state = self._earlier.pop()

    def _begins(self, token_id: int) -> bool:
        """Whether a token by itself begins the reasoning, whatever the grammar says."""
        return self._span.begin == (token_id,)

    @property
    def is_terminated(self) -> bool:
        return self._in_grammar and self._inner.is_terminated

    def forced(self, most: int) -> Sequence[int]:
        if self._in_grammar:
            return self._inner.forced(most)
        phase, written, _ = self._state
        if phase is _Phase.REASONING or self._is_undecided:
            return ()
        return self._fixed[written : written + most]

    @property
    def _fixed(self) -> tuple[int, ...]:
        """The tokens that the phase consists of."""
        in_lead = self._state[0] is _Phase.LEAD
        return self._span.lead if in_lead else self._span.begin

    def _after(self, token_id: int) -> _State | None:
        """Returns the state behind a token of the reasoning; None if it is wrong."""
        phase, written, tail = self._state
        if phase is _Phase.REASONING:
            return self._reasoned(tail, token_id)
        if token_id != self._fixed[written]:
            return None
        if written + 1 < len(self._fixed):
            return (phase, written + 1, b"")
        return _MATCHES if phase is _Phase.LEAD else _REASONS

    def _reasoned(self, tail: bytes, token_id: int) -> _State | None:
        span = self._span
        if token_id in self._stops:
            return None
        text = tail + self._tokens[token_id]
        if token_id == span.end_id or (span.end and span.end in text):
            return (_Phase.LEAD, 0, b"") if span.lead else _MATCHES
        kept = len(span.end) - 1
        return (_Phase.REASONING, 0, text[-kept:]) if kept > 0 else _REASONS


def _set(mask: "npt.NDArray[np.int32]", token_id: int, *, is_allowed: bool) -> None:
    words = mask.view("uint32")
    word, bit = divmod(token_id, _BITS)
    if word < len(words):
        others = int(words[word]) & ~(1 << bit)
        words[word] = others | (is_allowed << bit)
