"""Computes ratios from runs, and renders them as a table."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compare_isa import Isa, goal_on
from compare_rows import ROWS
from compare_work import BASELINE, HOOKLINE, Goal, Row

Results = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
"""Metrics of every run by row and side, in order of pairs; None for a failed run."""

HEADINGS = ("row", "work", "metric", "hookline", "peer", "ratio", "spread", "goal", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Hookline compared with one peer in one metric.

    Attributes:
        ours: Hookline's median.
        theirs: The peer's median; None if only Hookline was measured.
        peer: The peer's name; the better binding, if it has several.
        ratios: Ratios of the pairs, ascending.
    """

    row: str
    goal: Goal
    ours: float
    theirs: float | None = None
    peer: str = ""
    ratios: Sequence[float] = ()

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without a goal, or without a peer."""
        ratio, bound = self.goal.ratio, self.goal.bound
        if ratio is None and bound is None:
            return None
        if ratio is not None and self.ratio is None:
            return None
        found = ((self.ratio, ratio), (self.ours, bound))
        return all(
            value is None or limit is None or self._is_within(value, limit)
            for value, limit in found
        )

    def _is_within(self, value: float, limit: float) -> bool:
        return value >= limit if self.goal.is_higher_better else value <= limit


def comparisons(results: Results, isa: Isa | None = None) -> list[Comparison]:
    """Returns all comparisons of the runs so far.

    Args:
        results: The runs.
        isa: The instruction set that all sides were limited to, which changes goals.
    """
    found = (
        _comparison(row, goal, results[row])
        for row in results
        for goal in (*_goals(row, isa), *_against_baseline(ROWS[row]))
    )
    return [each for each in found if each is not None]


def _goals(row: str, isa: Isa | None) -> Iterable[Goal]:
    goals = ROWS[row].goals
    return goals if isa is None else (goal_on(isa, goal) for goal in goals)


def _against_baseline(row: Row) -> Iterable[Goal]:
    """Returns each of a row's metrics compared with the baseline checkout."""
    metrics = {goal.metric: goal for goal in row.goals}
    for goal in metrics.values():
        yield replace(goal, ratio=None, bound=None, peer=BASELINE)


def markdown(results: Results, isa: Isa | None = None) -> str:
    """Renders the table as Markdown."""
    rows = [HEADINGS, tuple("---" for _ in HEADINGS)]
    rows += [tuple(_cells(each)) for each in comparisons(results, isa)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def fields(results: Results, isa: Isa | None = None) -> list[dict[str, object]]:
    """Returns the comparisons as JSON fields."""
    return [
        {
            "row": each.row,
            "metric": each.goal.metric,
            "hookline": each.ours,
            "peer": each.peer,
            "peer_value": each.theirs,
            "ratio": each.ratio,
            "ratios": list(each.ratios),
            "goal": each.goal.ratio,
            "bound": each.goal.bound,
            "is_met": each.is_met,
        }
        for each in comparisons(results, isa)
    ]


def _comparison(
    row: str, goal: Goal, sides: Mapping[str, Sequence[Mapping[str, float]]]
) -> Comparison | None:
    pairs = {
        name: _pairs(goal.metric, sides.get(HOOKLINE, ()), runs)
        for name, runs in sides.items()
        if name != HOOKLINE and name.startswith(goal.peer)
    }
    medians = {
        name: statistics.median(theirs for _, theirs in found)
        for name, found in pairs.items()
        if found
    }
    if not medians:
        return _alone(row, goal, sides.get(HOOKLINE, ()))
    best = max if goal.is_higher_better else min
    peer = best(medians, key=lambda name: medians[name])
    return Comparison(
        row=row,
        goal=goal,
        ours=statistics.median(ours for ours, _ in pairs[peer]),
        theirs=medians[peer],
        peer=peer,
        ratios=sorted(ours / theirs for ours, theirs in pairs[peer]),
    )


def _alone(
    row: str, goal: Goal, runs: Sequence[Mapping[str, float]]
) -> Comparison | None:
    """Returns Hookline's own value of a metric that is limited without a peer."""
    values = [run[goal.metric] for run in runs if goal.metric in run]
    if goal.bound is None or not values:
        return None
    return Comparison(row=row, goal=goal, ours=statistics.median(values))


def _pairs(
    metric: str,
    ours: Sequence[Mapping[str, float]],
    theirs: Sequence[Mapping[str, float]],
) -> list[tuple[float, float]]:
    """Returns the complete pairs: both sides have the metric."""
    return [
        (one[metric], other[metric])
        for one, other in zip(ours, theirs, strict=False)
        if metric in one and metric in other
    ]


def _cells(each: Comparison) -> Iterable[str]:
    yield each.row
    yield ROWS[each.row].work
    yield each.goal.metric
    yield _number(each.ours)
    yield "" if each.theirs is None else f"{_number(each.theirs)} ({each.peer})"
    yield "" if each.ratio is None else f"{each.ratio:.2f}"
    yield _spread(each.ratios)
    yield _goal(each.goal)
    yield {True: "met", False: "not met", None: ""}[each.is_met]


def _spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f} of {len(ratios)}"


def _goal(goal: Goal) -> str:
    """Returns the limits: of the ratio, and after "own" of Hookline's value."""
    sign = "≥" if goal.is_higher_better else "≤"
    ratio = "" if goal.ratio is None else f"{sign} {goal.ratio:g}"
    bound = "" if goal.bound is None else f"own {sign} {goal.bound:g}"
    return ", ".join(filter(None, (ratio, bound)))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
