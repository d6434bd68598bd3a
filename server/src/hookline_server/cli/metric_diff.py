"""What a reader of one set of metrics would miss, or find changed, in another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hookline_server.cli.metric_catalogue import rows
from hookline_server.cli.metric_shape import Shape, Shapes


@dataclass(frozen=True, slots=True)
class MetricDiff:
    """From one set to another.

    Attributes:
        removed: Names of the first that the second lacks.
        added: Names that only the second has.
        changed: (name, what is different), for those that both have.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[tuple[str, str], ...]

    @property
    def breaks(self) -> bool:
        """Whether a reader of the first can be hurt by the second."""
        return bool(self.removed or self.changed)


def compare(first: Shapes, second: Shapes) -> MetricDiff:
    """Compares what both sides know; what one does not know is no difference."""
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
    """The shapes whose names are of these dialects."""
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
