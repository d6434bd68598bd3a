"""The report of a comparison: lines for people, fields for machines."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hookline_bench.comparison.changes import Change, Verdict
from hookline_bench.comparison.sample import Result
from hookline_server.cli.output import table

HEADINGS = ("metric", "phase", "A", "B", "change", "interval of B - A", "verdict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two results, and what changed from the first to the second."""

    first: Result
    second: Result
    changes: Sequence[Change]

    @property
    def regressions(self) -> list[Change]:
        """The changes for the worse."""
        return [each for each in self.changes if each.verdict is Verdict.WORSE]

    @property
    def is_judged(self) -> bool:
        """Whether there are values enough to judge any metric."""
        return any(each.verdict is not Verdict.TOO_FEW for each in self.changes)

    def lines(self) -> Iterable[str]:
        """Yields the lines of the report."""
        for name, (before, after) in self._conditions().items():
            yield f"The runs differ in {name}: {before} and {after}"
        yield table([HEADINGS, *(_cells(each) for each in self.changes)])
        for name, (first, second) in self._totals().items():
            change = _signed_percent((second - first) / first * 100 if first else None)
            yield f"{name}: {first:.2f} -> {second:.2f} {change}(one value a run)"
        yield self._conclusion()

    def fields(self) -> dict[str, object]:
        """Returns the fields of the JSON file."""
        return {
            "benchmark": self.first.benchmark,
            "regression": bool(self.regressions),
            "changes": [
                dataclasses.asdict(each)
                | {"difference": each.difference, "percent": each.percent}
                for each in self.changes
            ],
            "totals": {
                name: {"first": first, "second": second}
                for name, (first, second) in self._totals().items()
            },
            "conditions": {
                name: {"first": first, "second": second}
                for name, (first, second) in self._conditions().items()
            },
        }

    def _conclusion(self) -> str:
        if self.regressions:
            names = [f"{each.metric} {each.statistic}" for each in self.regressions]
            return f"B is worse in {', '.join(names)}."
        if not self.is_judged:
            return "The results have too few values to judge a change."
        return "B is worse in nothing."

    def _conditions(self) -> Mapping[str, tuple[object, object]]:
        """Returns the settings in which the runs differ."""
        first, second = self.first.conditions, self.second.conditions
        return {
            name: (first[name], second[name])
            for name in first
            if name in second and first[name] != second[name]
        }

    def _totals(self) -> Mapping[str, tuple[float, float]]:
        first, second = self.first.totals, self.second.totals
        return {name: (first[name], second[name]) for name in first if name in second}


def _cells(change: Change) -> tuple[str, ...]:
    digits = 3 if change.unit == "s" else 2
    interval = "-"
    if change.interval is not None:
        low, high = change.interval
        interval = f"{low:+.{digits}f} to {high:+.{digits}f}"
    return (
        f"{change.metric} {change.statistic} ({change.unit})",
        change.phase,
        f"{change.first:.{digits}f}",
        f"{change.second:.{digits}f}",
        f"{_signed_percent(change.percent)}".strip() or "-",
        interval,
        change.verdict,
    )


def _signed_percent(percent: float | None) -> str:
    return "" if percent is None else f"{percent:+.1f} % "
