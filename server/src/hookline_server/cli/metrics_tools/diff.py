"""Differences between two sets of metrics."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hookline_server.cli.metrics_tools.catalogue import rows
from hookline_server.cli.metrics_tools.shapes import Shape, Shapes


@dataclass(frozen=True, slots=True)
class MetricDiff:
    """Differences from a first set to a second one.

    Attributes:
        removed: Names that only the first has.
        added: Names that only the second has.
        changed: (name, differences) of names that both have.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]

    @property
    def breaks(self) -> bool:
        """Whether a reader of the first set breaks with the second."""
        return bool(self.removed or self.changed)


def compare(first: Shapes, second: Shapes) -> MetricDiff:
    """Compares two sets; what is unknown of one side is no difference."""
    both = sorted(first.keys() & second.keys())
    return MetricDiff(
        removed=tuple(sorted(first.keys() - second.keys())),
        added=tuple(sorted(second.keys() - first.keys())),
        changed=tuple(
            (name, text)
            for name in both
            if (text := "; ".join(_changes(first[name], second[name])))
        ),
    )


def only(shapes: Shapes, dialects: Sequence[str]) -> Shapes:
    """Returns the shapes whose names are of these dialects."""
    known = {row.name for row in rows(dialects)}
    marks = tuple(f"{dialect}{mark}" for dialect in dialects for mark in "_:")
    return {
        name: shape
        for name, shape in shapes.items()
        if name in known or name.startswith(marks)
    }


def _changes(first: Shape, second: Shape) -> Iterable[str]:
    if first.kind != second.kind:
        yield f"{first.kind} is {second.kind}"
    if first.labels is not None and second.labels is not None:
        if gone := first.labels - second.labels:
            yield f"without label {', '.join(sorted(gone))}"
        if new := second.labels - first.labels:
            yield f"with label {', '.join(sorted(new))}"
    if first.buckets is None or second.buckets is None:
        return
    if first.buckets != second.buckets:
        yield f"buckets {_bounds(first.buckets)} are {_bounds(second.buckets)}"


def _bounds(bounds: Sequence[float]) -> str:
    return " ".join(f"{bound:g}" for bound in bounds)
