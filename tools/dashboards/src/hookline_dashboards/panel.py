"""Panels as data: title, unit and queries, independent of Grafana."""

from dataclasses import dataclass
from enum import StrEnum


class Style(StrEnum):
    LINES = "lines"
    STACKED = "stacked lines"
    NUMBERS = "numbers"
    HEATMAP = "heatmap"
    TABLE = "table"


class Unit(StrEnum):
    """Units, by Grafana's names."""

    COUNT = "short"
    SECONDS = "s"
    RATIO = "percentunit"
    BYTES = "bytes"
    PER_SECOND = "cps"
    BYTES_PER_SECOND = "Bps"
    OPERATIONS_PER_SECOND = "flops"


class Alarm(StrEnum):
    """Values that are drawn in red."""

    NONE = "none"
    UNEQUAL_ZERO = "unequal 0"
    FROM_ONE = "from 1"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and a Grafana template for its series' legend."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of the dashboard.

    Attributes:
        title: Title, unique in the dashboard.
        unit: Unit of all series.
        queries: Its queries; the description comes from their metrics.
        style: Kind of graph.
        alarm: Values that are drawn in red.
    """

    title: str
    unit: Unit
    queries: tuple[Query, ...]
    style: Style = Style.LINES
    alarm: Alarm = Alarm.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of panels under one heading.

    Attributes:
        title: Title, unique in the dashboard.
        panels: Its panels in order; empty rows are left out.
        is_open: Whether the row is expanded at first; collapsed rows are not queried.
    """

    title: str
    panels: tuple[Panel, ...]
    is_open: bool = False
