"""Regular expressions mean in every backend what they mean in Python and JavaScript."""

import json
import re

import pytest

from hookline.structured_outputs import GrammarKind
from hookline_grammars.backend import BackendContext, RefusedGrammarError
from hookline_grammars.loading import make_backend
from hookline_grammars.pattern_parts import without_line_ends
from hookline_grammars.spec import GrammarSpec

BYTES = BackendContext(
    tokens=[*(bytes([each]) for each in range(256)), b""],
    vocab_size=257,
    eos_token_ids=(256,),
    options={},
)
BACKENDS = ["xgrammar", "llguidance"]
PATTERNS = (
    *(".", "a.", "a?.", ".*", "(?:.)", "(a|.)b", r"\.", "[.]", r"[^.]", r"a\nb"),
    *("[^a]", r"[^\n]", r"\s", r"\S", r"[^\s]", r"[\S]", r"\w", r"\W", r"[^\w]"),
    *(r"\d", r"\D", r"[^\d]", r"[\w.]", "a{2}", "^a$", r"\u0041", r"\x41", r"\t"),
)
CHARACTERS = (
    *("a", "b", "0", "_", "A", ".", "-", "\\", '"', "/", "[", "^", "]", " ", "x"),
    *("\n", "\r", "\t", "\v", "\f", "é", "\u00a0", "\u2028", "\u2029", "😀"),
)
LINE_ENDS = ("\n", "\r", "\u2028", "\u2029")


def matches(backend: str, spec: GrammarSpec, texts: list[str]) -> list[bool]:
    """Returns which texts match a grammar as a whole."""
    made = make_backend(backend, BYTES)
    data = made.compile(spec)
    found = []
    for text in texts:
        matcher = made.matcher(data, (256,))
        found.append(all(map(matcher.accept, text.encode())) and matcher.accept(256))
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_an_expression_matches_python_matches_too(backend: str) -> None:
    """
    With its ASCII classes or those of Unicode; `.` matches no line end, and everything
    else of one byte is matched as well.
    """
    pytest.importorskip(backend)
    texts = [*CHARACTERS, *(f"a{each}" for each in CHARACTERS), "ab", "a\nb", "aa", ""]
    faults = []
    for pattern in PATTERNS:
        spec = GrammarSpec(GrammarKind.REGEX, pattern)
        for text, found in zip(texts, matches(backend, spec, texts), strict=True):
            kinds = (0, re.ASCII)
            meant = [bool(re.fullmatch(pattern, text, kind)) for kind in kinds]
            if found not in meant and not (
                any(meant) and not found and text.endswith((*LINE_ENDS, "\u00a0"))
            ):
                faults.append((pattern, text, found))

    assert not faults


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_dot_matches_a_line_end(backend: str) -> None:
    """
    In an expression, and in a pattern within JSON, where a line feed is escaped.
    """
    pytest.importorskip(backend)
    lines = [f"a{each}" for each in LINE_ENDS]
    expression = GrammarSpec(GrammarKind.REGEX, "a.")
    found = matches(backend, expression, [*lines, "a\t", "aé"])
    assert found == [False] * len(LINE_ENDS) + [True, True]

    schema = json.dumps({"type": "string", "pattern": "^a.$"})
    try:
        found = matches(
            backend, GrammarSpec(GrammarKind.JSON, schema), ['"a\\n"', '"a\n"', '"ab"']
        )
    except RefusedGrammarError:
        return
    assert found == [False, False, True]


def test_only_dots_that_are_operators_change() -> None:
    """
    Neither escaped ones nor those in classes.
    """
    plain = r"\.[.][^.]\\[\].]"

    assert without_line_ends(plain) == plain
    assert without_line_ends(r"a.\..") == r"a{0}\.{0}".replace(
        "{0}", without_line_ends(".")
    )
