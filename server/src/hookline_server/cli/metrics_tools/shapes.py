"""Kind, labels and buckets of metrics, from the catalogue, a file or a page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hookline_server.cli.asking import url_of
from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.catalogue import MetricRow, rows
from hookline_server.cli.metrics_tools.page import MetricsPage, read_page
from hookline_server.cli.metrics_tools.web_page import fetch

INSTALLED = "installed"


@dataclass(frozen=True, slots=True)
class Shape:
    """A metric's form.

    Attributes:
        labels: Their names; None if the source has no series of it.
        buckets: Upper bounds; None if it has none, or they are unknown.
    """

    kind: str
    labels: frozenset[str] | None
    buckets: tuple[float, ...] | None


Shapes = Mapping[str, Shape]


def shapes_of(source: str, *, token: str | None) -> Shapes:
    """Returns shapes by name, of the catalogue, a file or a page.

    Raises:
        UsageError: The source cannot be read, or is none of these.
    """
    if source == INSTALLED:
        return _of_rows(rows())
    if (url := url_of(source)) is not None:
        return _of_page(read_page(fetch(url, token=token), source))
    try:
        text = Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {source}: {error}") from error
    if not text.lstrip().startswith("["):
        return _of_page(read_page(text, source))
    try:
        return _of_rows(msgspec.json.decode(text, type=list[MetricRow]))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{source} is not what `hookline metrics list --json` writes: {error}"
        ) from error


def _of_rows(found: Iterable[MetricRow]) -> Shapes:
    return {
        row.name: Shape(row.kind, frozenset(row.labels), row.buckets) for row in found
    }


def _of_page(page: MetricsPage) -> Shapes:
    labels: dict[str, set[str]] = {}
    bounds: dict[str, set[float]] = {}
    for sample in page.samples:
        own = labels.setdefault(sample.family, set())
        own.update(sample.labels.keys() - {"le", "quantile"})
        if "le" in sample.labels and sample.labels["le"] != "+Inf":
            bounds.setdefault(sample.family, set()).add(_bound(sample.labels["le"]))
    return {
        _exposed(family, kind): Shape(
            kind,
            frozenset(labels[family]) if family in labels else None,
            tuple(sorted(bounds[family])) if family in bounds else None,
        )
        for family, kind in page.kinds.items()
    }


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"the bound {text!r} of a bucket is not a number") from error


def _exposed(family: str, kind: str) -> str:
    # OpenMetrics declares a counter without the suffix that its samples have.
    is_bare = kind == "counter" and not family.endswith("_total")
    return f"{family}_total" if is_bare else family
