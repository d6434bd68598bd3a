"""Expressions of configurations match what Python's match, and cost little."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline_lora.files.patterns import MAX_CHARS, Pattern, endings, is_plain

NAMES = [
    *("q_proj", "lm_head", "model.embed_tokens", "model.layers.0.self_attn.q_proj"),
    *("model.layers.10.mlp.down_proj", "layers.1.mlp.up_proj", "a", "ab.1", "", "b-a"),
]
EXPRESSIONS = [
    r"q_proj",
    r".*\.(q|k|v|o)_proj",
    r"^model\.layers\.\d+\.mlp\.(?:up|down)_proj$",
    r"(?:.*?\bmodel\.layers\.[\d]{1,2}\.(?:self_attn|mlp)\.(?:q_proj|down_proj))",
    r"model\.layers\.[0-9]\..*",
    r"model\.layers\.1[^1-9]\..*|lm_head",
    r"[^.]+(\.[^.]+){3}",
    r"\w*",
    r"\W*\w+\b[.\-a]*\w+",
    r"(|a)(b|)(.1)?",
    r"\Am.*s\Z",
    r"a{0,1}b?.{2}",
    r"a{,3}[]a\-]*",
    r"()",
    r"(a*)b?\B(-?)a+",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_they_match_what_python_matches(expression: str) -> None:
    """All of a name, from its beginning to its end."""
    pattern = Pattern(expression)

    found = [name for name in NAMES if pattern.matches(name)]

    assert found == [name for name in NAMES if re.fullmatch(expression, name)]


ATOM = st.sampled_from(["a", "b", ".", r"\.", r"\d", r"\w", "[ab]", "[^a1]", "[0-9.]"])
PLACE = st.sampled_from(["^", "$", r"\b", r"\B", ""])
TIMES = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "*?", "{,2}", "{1,}"])
EXPRESSION = st.recursive(
    st.builds(lambda *each: "".join(each), PLACE, ATOM, TIMES),
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner)
        | st.builds(lambda a, b, n: f"({a}|{b}){n}", inner, inner, TIMES)
        | st.builds(lambda a, n: f"(?:{a}){n}", inner, TIMES)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    expression=EXPRESSION,
    names=st.lists(st.text(alphabet="ab1.-", min_size=1, max_size=6), max_size=6),
)
def test_made_up_ones_match_what_python_matches(
    expression: str, names: list[str]
) -> None:
    """Groups, repetitions and places in any order.

    Whether a place is inside of an empty text is told otherwise by each Python.
    """
    pattern = Pattern(expression)

    for name in names:
        assert pattern.matches(name) == bool(re.fullmatch(expression, name))


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(?=a)", "kind that is not supported"),
        ("(?P<a>b)", "kind that is not supported"),
        ("(?i:a)", "kind that is not supported"),
        (r"(a)\1", "is not supported"),
        (r"\p", "is not supported"),
        ("(a", "unmatched ("),
        ("a)", "unmatched )"),
        ("*a", "nothing to repeat"),
        ("a**", "repeats a repetition"),
        ("a++", "repeats a repetition"),
        ("a{2}{2}", "repeats a repetition"),
        ("a{x}", "counts nothing"),
        ("a{3,2}", "counts nothing"),
        ("a{", "counts nothing"),
        ("[a", "is cut off"),
        ("\\", "is cut off"),
        ("[z-a]", "a range that is empty"),
        (r"[\d-z]", "a range of classes"),
        (r"[\W]", "a class in a class"),
        ("((a{999}){999}){999}", "is too large"),
        ("(" * 100 + ")" * 100, "nested too deeply"),
        ("a" * (MAX_CHARS + 1), "more than 4096 characters"),
        (f"({'|' * 4000}){{999}}", "is too large"),
    ],
)
def test_wrong_and_large_ones_are_refused(expression: str, reason: str) -> None:
    """Before they cost anything."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        Pattern(expression)


@pytest.mark.parametrize(
    "expression", ["(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x", "(a?){60}a{60}"]
)
def test_none_takes_forever(expression: str) -> None:
    """Where Python's try more ways than there are atoms."""
    pattern = Pattern(expression)

    assert not pattern.matches("a" * 5000)


def test_steps_are_limited() -> None:
    """Those of all names together."""
    pattern = Pattern("(" + "|".join("ab" * 400) + ")*" + "(a?b?){300}")

    with pytest.raises(ValueError, match="takes too long"):
        all(pattern.matches("ab" * length) for length in range(300))


def test_plain_names_are_no_expressions() -> None:
    """Their dots are dots, and their endings are compared."""
    assert is_plain("model.layers.0.self_attn.q_proj")
    assert not is_plain("q_proj$")
    assert list(endings("a.b.c")) == ["a.b.c", "b.c", "c"]
