"""What a panel is: a title, a unit and queries, as data that knows no Grafana."""

from dataclasses import dataclass
from enum import StrEnum


class Style(StrEnum):
    LINES = "lines"
    STACKED = "stacked lines"
    NUMBERS = "numbers"
    HEATMAP = "heatmap"
    TABLE = "table"


class Unit(StrEnum):
    """Under Grafana's names."""

    COUNT = "short"
    SECONDS = "s"
    RATIO = "percentunit"
    BYTES = "bytes"
    PER_SECOND = "cps"
    BYTES_PER_SECOND = "Bps"
    OPERATIONS_PER_SECOND = "flops"


class Alarm(StrEnum):
    """Which values are drawn in red."""

    NONE = "none"
    UNEQUAL_ZERO = "unequal 0"
    FROM_ONE = "from 1"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of PromQL; a legend in Grafana's templates names its series."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture.

    Attributes:
        title: Unique in its row.
        unit: Of all its series.
        queries: What it draws; the metrics that they name make its description.
        style: How it is drawn.
        alarm: Which values are drawn in red.
    """

    title: str
    unit: Unit
    queries: tuple[Query, ...]
    style: Style = Style.LINES
    alarm: Alarm = Alarm.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading.

    Attributes:
        title: Unique.
        panels: In their order; a row without any is not drawn.
        is_open: Whether a reader sees the panels at once; those of a closed row are
            not queried.
    """

    title: str
    panels: tuple[Panel, ...]
    is_open: bool = False
