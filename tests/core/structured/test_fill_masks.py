"""Masks of many matchers at once are those of each by itself."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hookline import ReasoningSpan
from hookline.structured.backend import BackendContext, GrammarMatcher
from hookline.structured.fill_masks import fill_masks
from hookline.structured.json_text import JsonText, JsonTextMatcher
from hookline.structured.reasoning_matcher import ReasoningMatcher, SpanSpelling

STOP = 256
CONTEXT = BackendContext(
    tokens=[bytes([each]) for each in range(256)],
    vocab_size=STOP + 1,
    eos_token_ids=(STOP,),
    options={},
)
WORDS = -(-CONTEXT.vocab_size // 32)
JSON_TEXT = JsonText(CONTEXT)


class Alone:
    """Allows what has a bit in a pattern, and everything follows."""

    is_terminated = False

    def __init__(self, pattern: int) -> None:
        self.pattern = pattern

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        mask[:] = self.pattern

    def accept(self, token_id: int) -> bool:
        return token_id != STOP

    def rollback(self, count: int) -> None:
        pass

    def forced(self, most: int) -> Sequence[int]:
        return (0,) * min(most, 0)


class Together(Alone):
    """Likewise, and tells how many were filled at once."""

    calls: list[int] = []  # noqa: RUF012 - emptied by the test

    @classmethod
    def fill_many(
        cls,
        matchers: "Sequence[Together]",
        masks: npt.NDArray[np.int32],
        rows: Sequence[int],
    ) -> None:
        cls.calls.append(len(matchers))
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill(masks[row])


def json_text(inner: GrammarMatcher, text: bytes) -> GrammarMatcher:
    made = JsonTextMatcher(inner, JSON_TEXT)
    assert all(made.accept(byte) for byte in text)
    return made


def reasoned(inner: GrammarMatcher, text: bytes) -> GrammarMatcher:
    spelling = SpanSpelling(lambda text: list(text.encode()), CONTEXT.tokens)
    span = spelling.span(ReasoningSpan(begin="<", is_optional=True, end=">"))
    made = ReasoningMatcher(inner, span, CONTEXT.tokens, (STOP,))
    assert all(made.accept(byte) for byte in text)
    return made


def test_masks_are_the_same_together() -> None:
    """
    With and without a batch of the backend, in any place of text and reasoning.
    """
    matchers = [
        Alone(5),
        Together(6),
        json_text(Together(-1), b'"a'),
        json_text(Together(-1), b'"\\u00'),
        json_text(Alone(-2), b'"\\'),
        reasoned(Together(9), b""),
        reasoned(Together(10), b"<"),
        reasoned(json_text(Together(-1), b""), b'<x>"\\'),
        json_text(Together(-1), b'"b'),
    ]
    rows = [8, 0, 2, 1, 4, 3, 7, 6, 9]
    expected = np.full((10, WORDS), 77, np.int32)
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill(expected[row])
    Together.calls.clear()

    masks = np.full((10, WORDS), 77, np.int32)
    fill_masks(matchers, masks, rows)

    assert masks.tolist() == expected.tolist()
    assert sorted(Together.calls) == [1, 1, 3]
