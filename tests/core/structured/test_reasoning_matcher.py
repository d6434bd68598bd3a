"""A grammar that begins behind the reasoning, token by token."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hookline import ReasoningSpan, RequestError
from hookline_grammars.reasoning_matcher import ReasoningMatcher, SpanSpelling

END, THINK, STOP = 256, 257, 258
"""Special tokens behind one token for each byte."""
TOKENS = [bytes([each]) for each in range(256)] + [b""] * 3 + [b"</", b"end>\n", b"x<"]
WORDS = -(-len(TOKENS) // 32)
NAMES = {"[END]": END, "[THINK]": THINK}


def encode(text: str) -> list[int]:
    return [NAMES[text]] if text in NAMES else list(text.encode())


class Word:
    """A grammar of one word, and its end."""

    def __init__(self, word: bytes) -> None:
        self.following = [*word, STOP]
        self.passed = 0

    def fill(self, mask: npt.NDArray[np.int32]) -> None:
        mask[:] = 0
        word, bit = divmod(self.following[self.passed], 32)
        mask[word] = np.uint32(1 << bit).astype(np.int32)

    def accept(self, token_id: int) -> bool:
        is_right: bool = token_id == self.following[self.passed]
        self.passed += is_right
        return is_right

    def rollback(self, count: int) -> None:
        self.passed -= count

    @property
    def is_terminated(self) -> bool:
        return self.passed == len(self.following)

    def forced(self, most: int) -> Sequence[int]:
        return self.following[self.passed : -1][:most]


def matcher(**span: Any) -> ReasoningMatcher:
    spelling = SpanSpelling(encode, TOKENS)
    tokens = spelling.span(ReasoningSpan(**span))
    return ReasoningMatcher(Word(b"yes"), tokens, TOKENS, (STOP,))


def allowed(of: ReasoningMatcher) -> set[int]:
    mask = np.zeros(WORDS, np.int32)
    of.fill(mask)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return {int(each) for each in np.flatnonzero(bits) if each < len(TOKENS)}


def passes(of: ReasoningMatcher, *token_ids: int) -> bool:
    return all(of.accept(each) for each in token_ids)


def test_reasoning_is_free_but_cannot_end_the_text() -> None:
    """
    Behind its end the grammar decides.
    """
    made = matcher(end="[END]")

    assert allowed(made) == set(range(len(TOKENS))) - {STOP}
    assert not made.accept(STOP)
    assert passes(made, *b"no [END] </end>", END)
    assert allowed(made) == {ord("y")}
    assert not made.accept(END)
    assert passes(made, *b"yes", STOP)
    assert made.is_terminated


@pytest.mark.parametrize("tokens", [[*b"</end>"], [259, 260], [261, *b"/end>"]])
def test_an_end_is_found_however_it_is_spelled(tokens: list[int]) -> None:
    """
    Its tokens may begin before it or end behind it.
    """
    made = matcher(end="</end>")

    assert passes(made, *b"<<", *tokens)
    assert allowed(made) == {ord("y")}


def test_first_token_decides_whether_there_is_optional_reasoning() -> None:
    """
    The grammar's own tokens and the one that begins reasoning are possible.
    """
    span = {"begin": "[THINK]", "is_optional": True, "end": "[END]"}
    made, other = matcher(**span), matcher(**span)

    assert allowed(made) == {ord("y"), THINK}
    assert list(made.forced(9)) == []
    assert passes(made, *b"yes", STOP)
    assert passes(other, THINK, *b"yes", END, *b"yes", STOP)


def test_what_begins_reasoning_does_so_in_any_grammar() -> None:
    """
    Free text would take the token, too, but it is not meant then.
    """
    made = matcher(begin="y", is_optional=True, end="[END]")

    assert passes(made, *b"yes or no", END, *b"yes", STOP)


def test_fixed_texts_are_forced() -> None:
    """
    The beginning and what leads to the output leave no choice, so they are drafted.
    """
    made = matcher(begin="ab", end="[END]", lead="cd")

    assert allowed(made) == {ord("a")}
    assert bytes(made.forced(9)) == b"ab"
    assert passes(made, ord("a"))
    assert bytes(made.forced(9)) == b"b"
    assert not made.accept(ord("x"))
    assert passes(made, ord("b"), END)
    assert bytes(made.forced(1)) == b"c"
    assert passes(made, *b"cd")
    assert bytes(made.forced(9)) == b"yes"


def test_drafts_are_taken_back_anywhere() -> None:
    """
    Going ahead and back changes nothing that follows.
    """
    chance = random.Random(1)  # noqa: S311 - no secret
    for span in (
        {"end": "</end>"},
        {"begin": "ab", "end": "[END]", "lead": "cd"},
        {"begin": "[THINK]", "is_optional": True, "end": "</end>", "lead": "\n"},
    ):
        for _ in range(50):
            made, passed = matcher(**span), 0
            for _ in range(40):
                if made.is_terminated:
                    break
                ahead = 0
                before = allowed(made)
                for _ in range(chance.randrange(6)):
                    if made.is_terminated:
                        break
                    options = sorted(allowed(made) & {*b"abcd</en>\nyes", THINK, 260})
                    ahead += made.accept(
                        chance.choice(options or sorted(allowed(made)))
                    )
                made.rollback(ahead)
                assert allowed(made) == before
                passed += made.accept(chance.choice(sorted(before)))


@pytest.mark.parametrize(
    "fields", [{"end": ""}, {"end": "a" * 257}, {"end": "a", "begin": "\ud800"}]
)
def test_wrong_spans_are_refused(fields: dict[str, Any]) -> None:
    """
    With an error that names the parameter.
    """
    with pytest.raises(RequestError, match="reasoning"):
        ReasoningSpan(**fields)
