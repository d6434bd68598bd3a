"""Grammars whose tables llguidance's backend keeps for further requests."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from hookline import StructuredOutputsParams
from hookline_grammars.backend import BackendContext, GrammarMatcher
from hookline_grammars.spec import spec_of
from hookline_llguidance import LLGuidanceBackend, first_matchers

END = 256
TOKENS = [bytes([code]) for code in range(END)]
CONTEXT = BackendContext(
    tokens=[*TOKENS, b""], vocab_size=END + 1, eos_token_ids=(END,), options={}
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> LLGuidanceBackend:
    """A backend for which no grammar takes long to make."""
    monkeypatch.setattr(first_matchers, "_QUICK_SECONDS", math.inf)
    return LLGuidanceBackend(CONTEXT)


def compiled(made: LLGuidanceBackend, pattern: str) -> bytes:
    return made.compile(spec_of(StructuredOutputsParams(regex=pattern)))


def begun(made: LLGuidanceBackend, data: bytes) -> GrammarMatcher:
    """A request's matcher, of which the first mask is asked for."""
    matcher = made.matcher(data, (END,))
    matcher.fill(np.zeros(-(-(END + 1) // 32), np.int32))
    return matcher


def allowed(matcher: GrammarMatcher) -> bytes:
    mask: npt.NDArray[np.int32] = np.zeros(-(-(END + 1) // 32), np.int32)
    matcher.fill(mask)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return bytes(np.flatnonzero(bits)[:END].tolist())


def kept(made: LLGuidanceBackend) -> list[bytes]:
    return list(made._firsts._kept)


def test_a_grammar_that_is_used_once_is_not_kept(made: LLGuidanceBackend) -> None:
    """Its tables may take megabytes, whatever the length of its text."""
    for number in range(20):
        data = compiled(made, f"(a|b|{number}){{1,3000}}")
        made.matcher(data, (END,))  # as it is read once it has been compiled
        assert kept(made) == [data]

        begun(made, data)

        assert kept(made) == []


def test_a_grammar_that_comes_again_is_kept(made: LLGuidanceBackend) -> None:
    """Requests whose matchers are not kept any more go on."""
    data = compiled(made, "ab|cd")
    first, second = begun(made, data), begun(made, data)

    third, fourth = begun(made, data), begun(made, data)

    assert kept(made) == [data]
    for letter, matcher in zip(b"acac", (first, second, third, fourth), strict=True):
        assert matcher.accept(letter)
        assert allowed(matcher) == (b"b" if letter == ord("a") else b"d")


def test_a_grammar_that_takes_long_to_make_is_kept(
    made: LLGuidanceBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the step of a second request would have to make it."""
    monkeypatch.setattr(first_matchers, "_QUICK_SECONDS", 0.0)
    data = compiled(made, "ab|cd")

    begun(made, data)

    assert kept(made) == [data]


def test_few_are_kept(made: LLGuidanceBackend) -> None:
    """The latest, as many as their tables typically have room for."""
    most = first_matchers._KEPT_BYTES // first_matchers._TABLES_BYTES
    texts = [compiled(made, f"a{number}") for number in range(most + 5)]

    for data in texts:
        made.matcher(data, (END,))

    assert kept(made) == texts[-len(kept(made)) :]
    assert most // 2 < len(kept(made)) < len(texts)
