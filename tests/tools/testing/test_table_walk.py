"""Tables that one test walks."""

import inspect

import pytest

from hookline_testing.table_walk import for_each_row


def test_all_faulty_rows_are_listed() -> None:
    """
    Each with its name; the others are looked at, too.
    """
    seen = []

    @for_each_row("number, name", [(1, "a"), (2, "b"), (3, "c")])
    def walked(number: int, name: str) -> None:
        seen.append(name)
        assert number == 2

    with pytest.RaisesGroup(AssertionError, AssertionError, match="2 of 3") as caught:
        walked()

    assert seen == ["a", "b", "c"]
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["of the row (1, 'a')"], ["of the row (3, 'c')"]]


def test_other_parameters_are_fixtures() -> None:
    """
    They are the same for all rows.
    """
    found = []

    @for_each_row("row", "xy")
    def walked(row: str, fixture: str) -> None:
        found.append(row + fixture)

    walked(fixture="1")

    assert list(inspect.signature(walked).parameters) == ["fixture"]
    assert found == ["x1", "y1"]


def test_a_table_without_rows_is_a_mistake() -> None:
    """
    A test of it could not fail.
    """
    with pytest.raises(ValueError, match="no rows"):
        for_each_row("row", [])
