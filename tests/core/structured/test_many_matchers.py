"""Many matchers at once do what each does by itself."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hookline import ReasoningSpan
from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.json_text import JsonText, JsonTextMatcher
from hookline_grammars.many_matchers import accept_tokens, fill_masks
from hookline_grammars.reasoning_matcher import ReasoningMatcher, SpanSpelling

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
    """Has a pattern as its mask, and accepts every other token."""

    is_terminated = False

    def __init__(self, pattern: int) -> None:
        self.pattern = pattern
        self.passed = 0

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        mask[:] = self.pattern

    def accept(self, token_id: int) -> bool:
        is_allowed = token_id != self.pattern
        self.passed += is_allowed
        return is_allowed

    def rollback(self, count: int) -> None:
        self.passed -= count

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

    @classmethod
    def accept_many(
        cls, matchers: "Sequence[Together]", token_ids: Sequence[int]
    ) -> Sequence[bool]:
        cls.calls.append(len(matchers))
        pairs = zip(matchers, token_ids, strict=True)
        return [matcher.accept(token_id) for matcher, token_id in pairs]


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


def test_tokens_are_accepted_together_as_alone() -> None:
    """
    Each matcher passes its own token, or stays; wrapped ones likewise.
    """

    def made() -> tuple[list[Alone], list[GrammarMatcher]]:
        inner = [Alone(65), Together(65), Together(66), Together(67), Alone(68)]
        text = json_text(inner[1], b"")
        after = reasoned(json_text(inner[2], b""), b"<x>")
        before = reasoned(inner[3], b"<")
        return inner, [inner[0], text, after, before, reasoned(inner[4], b"<x>")]

    for tokens in ([65] * 5, [66] * 5, [67] * 5, [64, 92, 62, 62, 92]):
        expected, alone = made()
        accepted = [
            matcher.accept(token_id)
            for matcher, token_id in zip(alone, tokens, strict=True)
        ]
        found, together = made()

        assert list(accept_tokens(together, tokens)) == accepted
        assert [each.passed for each in found] == [each.passed for each in expected]
        masks = np.zeros((2, 5, WORDS), np.int32)
        for at in range(5):
            alone[at].fill(masks[0, at])
            together[at].fill(masks[1, at])
        assert masks[0].tolist() == masks[1].tolist()
