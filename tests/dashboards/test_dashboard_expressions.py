"""The lists of expressions, and the table of what has data."""

from pathlib import Path

import pytest

from hookline_testing.dashboard_coverage import Coverage, reasons, table
from hookline_testing.dashboard_expressions import (
    Dashboard,
    Expression,
    read_dashboards,
)

LISTS = Path(__file__).parent / "expressions"
BOARD = """\
name: board
expressions:
  - expr: rate(a_<c>_total{x="<x>"}[1m])
    c: [in, out]
    x: [1, 2]
  - expr: b
    absent: there is no b
  - expr: b
    absent: there is no b
  - expr: c
    elsewhere: the gateway counts c
"""


def test_lists_make_all_combinations(tmp_path: Path) -> None:
    """
    A placeholder stands for each value of its list; equal expressions count once.
    """
    (tmp_path / "board.yml").write_text(BOARD)

    [board] = read_dashboards(tmp_path)

    assert board.name == "board"
    assert board.expressions == (
        Expression('rate(a_in_total{x="1"}[1m])'),
        Expression('rate(a_in_total{x="2"}[1m])'),
        Expression('rate(a_out_total{x="1"}[1m])'),
        Expression('rate(a_out_total{x="2"}[1m])'),
        Expression("b", absent="there is no b"),
        Expression("c", absent="the gateway counts c", is_foreign=True),
    )


def test_list_without_a_placeholder_is_an_error(tmp_path: Path) -> None:
    """
    A list whose name stands nowhere in the expression is a mistake in writing.
    """
    (tmp_path / "board.yml").write_text(
        "name: board\nexpressions:\n  - expr: rate(a_<d>[1m])\n    c: [in]\n"
    )

    with pytest.raises(AssertionError, match="c is not in"):
        read_dashboards(tmp_path)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a", set()),
        ("sum by (pod, model) (a)", {"pod", "model"}),
        ("histogram_quantile(0.5, sum by (le, pod) (rate(a_bucket[1m])))", {"pod"}),
        ("sum by (x) (a) / on () group_left () sum(b)", {"x"}),
    ],
)
def test_grouping_labels_must_be_in_the_data(text: str, labels: set[str]) -> None:
    """
    Prometheus groups by labels that no series has, too: that is no data for a legend.
    """
    assert Expression(text).grouping == labels


def test_all_lists_can_be_read() -> None:
    """
    Each file names its dashboard, and no placeholder is left over.
    """
    boards = read_dashboards(LISTS)

    assert len({board.name for board in boards}) == len(list(LISTS.iterdir()))
    for board in boards:
        for expression in board.expressions:
            assert "<h>" not in expression.text
            assert "<c>" not in expression.text


def test_table_counts_what_has_data() -> None:
    """
    Rows count data, names that do not apply, other programs' names and debts.
    """
    owed, paid = Expression("a"), Expression("b")
    unfit, other = Expression("c", "no c"), Expression("d", "its own", is_foreign=True)
    board = Dashboard("board", (owed, paid, unfit, other))

    lines = table([Coverage(board, frozenset({paid}))]).splitlines()

    assert lines[2] == "| board | 4 | 1 | 1 | 1 | 1 |"
    assert lines[3] == "| all | 4 | 1 | 1 | 1 | 1 |"


def test_reasons_begin_with_what_is_missing() -> None:
    """
    Expressions that owe data stand first; those with data are not listed.
    """
    board = Dashboard("board", (Expression("c", "no c"), Expression("a")))

    rows = reasons([Coverage(board, frozenset())]).splitlines()[2:]

    assert rows == ["| board | `a` | **missing** |", "| board | `c` | no c |"]


def test_reason_that_is_no_longer_true_is_found() -> None:
    """
    An expression with data in spite of its reason is unexpected.
    """
    late = Expression("c", "no c")

    coverage = Coverage(Dashboard("board", (late,)), frozenset({late}))

    assert coverage.unexpected == [late]
    assert coverage.missing == []
