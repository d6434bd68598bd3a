"""A step's rows are grouped by slot, at addresses that never change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline_lora.kernels.rows import StepRows


@given(slots=st.lists(st.integers(-1, 3), max_size=30))
def test_rows_are_grouped_by_slot(slots: list[int]) -> None:
    """Ascending in each group; those of the base model are in none."""
    rows = StepRows(30, 4)
    rows.fill(np.array([0, 1, 2], np.int64))  # leaves nothing behind

    rows.fill(np.array(slots, np.int64))

    expected = {
        slot: [row for row, own in enumerate(slots) if own == slot]
        for slot in sorted({*slots} - {-1})
    }
    assert {slot: own.tolist() for slot, own in rows.groups()} == expected
    assert rows.counts.tolist() == [
        sum(map(len, expected.values())),
        len(expected),
    ]
    assert rows.is_empty == (not expected)


def test_addresses_never_change() -> None:
    """Recorded kernels hold them; the parts lie in the memory that devices get."""
    rows = StepRows(8, 2)
    parts = [rows.counts, rows.starts, rows.slots, rows.order]
    before = [each.ctypes.data for each in parts]

    rows.fill(np.array([1, -1, 0], np.int64))

    parts = [rows.counts, rows.starts, rows.slots, rows.order]
    assert [each.ctypes.data for each in parts] == before
    assert rows.memory.tolist() == [2, 2, 0, 1, 2, 0, 1, 2, 0, *[0] * 6]


def test_what_does_not_fit_is_refused() -> None:
    """Too many tokens, and a slot that is not there."""
    rows = StepRows(2, 3)
    with pytest.raises(ValueError, match="at most 2 tokens, not 3"):
        rows.fill(np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="slot 3 is not below 3"):
        rows.fill(np.array([0, 3], np.int64))
