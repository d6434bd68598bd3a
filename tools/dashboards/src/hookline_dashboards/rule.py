"""Prometheus rules as data."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    CRITICAL = "critical"
    """Users are affected now: page somebody."""
    WARNING = "warning"
    """Degradation ahead: investigate within the working day."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule.

    Attributes:
        name: `level:metric:operations`; the level is `engine`, which keeps all labels
            of a target, or the labels that targets are aggregated by.
        expression: PromQL.
    """

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alerting rule.

    Attributes:
        name: Name in CamelCase, starting with Hookline.
        expression: PromQL; each series of its result is an alert.
        wait: Minimum duration before it fires, in Prometheus's notation.
        severity: Urgency, for Alertmanager's routing.
        summary: One line that describes the problem; a Prometheus template.
        next_step: What to check and do; a Prometheus template.
    """

    name: str
    expression: str
    wait: str
    severity: Severity
    summary: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group of rules, evaluated in order."""

    name: str
    rules: tuple[Recording | Alert, ...]
