"""Computes ratios from runs, and renders them as a table."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compare_rows import BASELINE, HOOKLINE, ROWS, Goal, Row

Results = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
"""Metrics of every run by row and side, in order of pairs; None for a failed run."""

HEADINGS = ("row", "work", "metric", "hookline", "peer", "ratio", "spread", "goal", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Hookline compared with one peer in one metric.

    Attributes:
        ours: Hookline's median.
        theirs: The peer's median.
        peer: The peer's name; the better binding, if it has several.
        ratios: Ratios of the pairs, ascending.
    """

    row: str
    goal: Goal
    ours: float
    theirs: float
    peer: str
    ratios: Sequence[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        if self.goal.ratio is None:
            return None
        if self.goal.is_higher_better:
            return self.ratio >= self.goal.ratio
        bound = self.goal.bound
        return self.ratio <= self.goal.ratio and (bound is None or self.ours <= bound)


def comparisons(results: Results) -> list[Comparison]:
    """Returns all comparisons of the runs so far."""
    found = (
        _comparison(row, goal, results[row])
        for row in results
        for goal in (*ROWS[row].goals, *_against_baseline(ROWS[row]))
    )
    return [each for each in found if each is not None]


def _against_baseline(row: Row) -> Iterable[Goal]:
    """Returns each of a row's metrics compared with the baseline checkout."""
    metrics = {goal.metric: goal for goal in row.goals}
    for goal in metrics.values():
        yield replace(goal, ratio=None, bound=None, peer=BASELINE)


def markdown(results: Results) -> str:
    """Renders the table as Markdown."""
    rows = [HEADINGS, tuple("---" for _ in HEADINGS)]
    rows += [tuple(_cells(each)) for each in comparisons(results)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def fields(results: Results) -> list[dict[str, object]]:
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
            "is_met": each.is_met,
        }
        for each in comparisons(results)
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
        return None
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


def _pairs(
    metric: str,
    ours: Sequence[Mapping[str, float]],
    theirs: Sequence[Mapping[str, float]],
) -> list[tuple[float, float]]:
    """Returns the complete pairs: both sides did their work."""
    return [
        (one[metric], other[metric])
        for one, other in zip(ours, theirs, strict=False)
        if one and other
    ]


def _cells(each: Comparison) -> Iterable[str]:
    yield each.row
    yield ROWS[each.row].work
    yield each.goal.metric
    yield _number(each.ours)
    yield f"{_number(each.theirs)} ({each.peer})"
    yield f"{each.ratio:.2f}"
    yield f"{each.ratios[0]:.2f} to {each.ratios[-1]:.2f} of {len(each.ratios)}"
    yield _goal(each.goal)
    yield {True: "met", False: "not met", None: ""}[each.is_met]


def _goal(goal: Goal) -> str:
    if goal.ratio is None:
        return ""
    ratio = f"{'≥' if goal.is_higher_better else '≤'} {goal.ratio:g}"
    return ratio if goal.bound is None else f"{ratio}, ≤ {goal.bound:g}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
