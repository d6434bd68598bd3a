"""What a rule of Prometheus is, as data."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    CRITICAL = "critical"
    """Users notice it now: wake somebody."""
    WARNING = "warning"
    """It gets worse if nobody looks: within the working day."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A series made of others.

    Attributes:
        name: `level:metric:operations`; the level is `engine`, which keeps all labels
            of a target, or the labels by which all targets are added up.
        expression: PromQL.
    """

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A state that somebody has to be told of.

    Attributes:
        name: In CamelCase, with Hookline in front.
        expression: PromQL; each series that it returns is an alert.
        wait: How long it has to be so, in Prometheus's notation.
        severity: Who has to be told, and when.
        summary: What is wrong, in a line; a template of Prometheus.
        next_step: What to look at next; a template, too.
    """

    name: str
    expression: str
    wait: str
    severity: Severity
    summary: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another."""

    name: str
    rules: tuple[Recording | Alert, ...]
