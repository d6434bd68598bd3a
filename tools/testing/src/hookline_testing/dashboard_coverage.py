"""Which expressions of dashboards have data, and the table of it."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hookline_testing.dashboard_expressions import Dashboard, Expression
from hookline_testing.own_time import Deadline
from hookline_testing.prometheus_process import Prometheus


@dataclass(frozen=True, slots=True)
class Coverage:
    """What became of a dashboard's expressions.

    Attributes:
        dashboard: The dashboard.
        with_data: Those that had a finite value, and the labels that they group by.
    """

    dashboard: Dashboard
    with_data: frozenset[Expression]

    @property
    def missing(self) -> list[Expression]:
        """Those that should have had data and had none."""
        return [
            each
            for each in self.dashboard.expressions
            if not each.absent and each not in self.with_data
        ]

    @property
    def unexpected(self) -> list[Expression]:
        """Those with data in spite of the reason why they have none."""
        return [each for each in self.with_data if each.absent]


def cover(
    prometheus: Prometheus, dashboards: Sequence[Dashboard], *, patience_seconds: float
) -> list[Coverage]:
    """Queries all expressions, again and again until those that owe data have it."""
    every = [each for board in dashboards for each in board.expressions]
    found: set[Expression] = set()
    deadline = Deadline(patience_seconds)
    while owing := [each for each in every if each not in found and not each.absent]:
        found.update(_with_data(prometheus, owing))
        if not deadline.is_ahead:
            break
        time.sleep(1.0)
    found.update(_with_data(prometheus, (each for each in every if each.absent)))
    return [
        Coverage(board, frozenset(found.intersection(board.expressions)))
        for board in dashboards
    ]


def _with_data(
    prometheus: Prometheus, expressions: Iterable[Expression]
) -> list[Expression]:
    return [
        each
        for each in expressions
        if any(_is_data(series, each) for series in prometheus.query(each.text))
    ]


def _is_data(series: Mapping[str, Any], expression: Expression) -> bool:
    """Whether a series has a finite value and each label that it is grouped by."""
    is_finite = math.isfinite(float(series["value"][1]))
    return is_finite and expression.grouping <= set(series["metric"])


def table(coverages: Sequence[Coverage]) -> str:
    """Markdown: a row for each dashboard, and the reasons of those without data."""
    columns = "expressions | with data | does not apply | other programs' | missing"
    lines = [
        f"| dashboard | {columns} |",
        "|---|---|---|---|---|---|",
        *(_row(each.dashboard.name, [each]) for each in coverages),
        _row("all", coverages),
    ]
    return "\n".join(lines)


def _row(name: str, coverages: Sequence[Coverage]) -> str:
    listed = [each for found in coverages for each in found.dashboard.expressions]
    absent = [
        each
        for found in coverages
        for each in found.dashboard.expressions
        if each.absent and each not in found.with_data
    ]
    foreign = sum(each.is_foreign for each in absent)
    counts = (
        len(listed),
        sum(len(found.with_data) for found in coverages),
        len(absent) - foreign,
        foreign,
        sum(len(found.missing) for found in coverages),
    )
    return f"| {name} | {' | '.join(map(str, counts))} |"


def reasons(coverages: Sequence[Coverage]) -> str:
    """Markdown: each expression without data and why, those that owe data first."""
    rows = [
        f"| {found.dashboard.name} | `{each.text}` | {each.absent or '**missing**'} |"
        for found in coverages
        for each in (
            *found.missing,
            *(
                each
                for each in found.dashboard.expressions
                if each.absent and each not in found.with_data
            ),
        )
    ]
    return "\n".join(["| dashboard | expression | reason |", "|---|---|---|", *rows])
