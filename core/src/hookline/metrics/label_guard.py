"""Bounds the values of labels that somebody else chooses."""

from collections.abc import Mapping

from hookline.config import MetricsConfig
from hookline.metrics.metric import Label

OTHER = "other"
NONE = "none"
"""Stands where there is no value at all."""


class LabelGuard:
    """Lets some values of a label through; every other is told as `other`."""

    def __init__(self, cap: int, allowed: tuple[str, ...] = ()) -> None:
        """Takes an allow-list, or else the first `cap` values that come."""
        self._values = set(allowed[:cap])
        self._room = 0 if allowed else cap
        self.folded = 0

    def fold(self, value: str) -> str:
        """The value, or what it is told as."""
        if value in ("", NONE):
            return NONE
        if value in self._values or value == OTHER:
            return value
        if self._room > 0:
            self._room -= 1
            self._values.add(value)
            return value
        self.folded += 1
        return OTHER


class LabelGuards:
    """One guard for each open label: a value is told alike in every metric."""

    def __init__(self, config: MetricsConfig) -> None:
        self._config = config
        self._guards: dict[str, LabelGuard] = {}

    def of(self, label: Label) -> LabelGuard | None:
        """The label's guard; None where all its values are known beforehand."""
        if label.values:
            return None
        if label.name not in self._guards:
            self._guards[label.name] = self._make(label)
        return self._guards[label.name]

    @property
    def folded(self) -> Mapping[str, int]:
        """How often each label's value was folded."""
        return {name: guard.folded for name, guard in self._guards.items()}

    def _make(self, label: Label) -> LabelGuard:
        if label.name == "tenant":
            return LabelGuard(self._config.max_tenants, self._config.tenants)
        return LabelGuard(label.cap)
