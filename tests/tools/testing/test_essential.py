"""What is left to `make test-all`."""

import pytest

from hookline_testing.essential import essential, examples, may_be_asked_for

REST = "(slow or hostile) and not exhaustive"


def test_all_but_the_chosen_values_are_exhaustive() -> None:
    """
    Their order stays.
    """
    first, second = essential([1, 2], 2)

    assert [mark.name for mark in first.marks] == ["exhaustive"]  # type: ignore[attr-defined]
    assert second == 2


def test_slow_values_are_left_to_ci() -> None:
    """
    Unless they are chosen, so that all may be called slow.
    """
    first, second, third = essential([1, (2, 3), 4], 1, slow=[1, (2, 3)])

    assert first == 1
    assert second.values == (2, 3)  # type: ignore[attr-defined]
    assert [mark.name for mark in second.marks] == ["slow"]  # type: ignore[attr-defined]
    assert [mark.name for mark in third.marks] == ["exhaustive"]  # type: ignore[attr-defined]


def test_a_chosen_value_is_one_of_all() -> None:
    """
    Else it would be left out silently.
    """
    with pytest.raises(ValueError, match=r"\[3\]"):
        essential([1, 2], 3)
    with pytest.raises(ValueError, match=r"\[4\]"):
        essential([1, 2], 1, slow=[2, 4])


@pytest.mark.parametrize(("variable", "count"), [("", 10), ("1", 30)])
def test_a_third_of_the_examples_is_essential(
    monkeypatch: pytest.MonkeyPatch, variable: str, count: int
) -> None:
    """
    All are drawn where all tests run.
    """
    monkeypatch.setenv("HOOKLINE_TEST_ALL", variable)

    assert examples(30) == count


@pytest.mark.parametrize(
    ("source", "asked", "may_be"),
    [
        ("def test_a(): ...", REST, False),
        ("def test_a(): ...", f"not ({REST})", True),
        ("pytestmark = pytest.mark.hostile", REST, True),
        ("@pytest.mark.exhaustive", REST, False),
        ("@pytest.mark.exhaustive\n@pytest.mark.slow", REST, True),
        ("a slow test", REST, False),
        ("essential(PARAMS)", "exhaustive", True),
        ("essential(PARAMS)", REST, False),
        ("essential(PARAMS, slow=PARAMS)", REST, True),
        ("pytest.mark.gpu", "gpu and slow", False),
    ],
)
def test_any_of_the_marks_of_a_source_may_be_a_tests(
    source: str, asked: str, may_be: bool
) -> None:
    """Another test of the same file may lack one of them."""
    assert may_be_asked_for(source, asked) is may_be
