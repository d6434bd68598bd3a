"""Bounds the number of values of labels that clients choose."""

from collections.abc import Mapping

from hookline_metrics.config import MetricsConfig
from hookline_metrics.metric import Label

OTHER = "other"
NONE = "none"
"""Replaces a missing value."""


class LabelGuard:
    """Passes a limited set of values of a label; replaces all others by `other`."""

    def __init__(
        self,
        cap: int,
        allowed: tuple[str, ...] = (),
        known: tuple[str, ...] = (),
    ) -> None:
        """Passes the allowed values or, without any, the first `cap` values.

        It always passes the values that are known in advance.
        """
        self._values = {*allowed[:cap], *known}
        self._room = 0 if allowed else cap
        self.folded = 0

    def fold(self, value: str) -> str:
        """Returns the value, or its replacement."""
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
    """One guard per open label, shared by all metrics."""

    def __init__(self, config: MetricsConfig) -> None:
        self._config = config
        self._guards: dict[str, LabelGuard] = {}

    def of(self, label: Label) -> LabelGuard | None:
        """Returns the label's guard, or None if its values need no bound."""
        if label.values or label.cap is None:
            return None
        if label.name not in self._guards:
            self._guards[label.name] = self._make(label, label.cap)
        return self._guards[label.name]

    @property
    def folded(self) -> Mapping[str, int]:
        """Number of replaced values by label."""
        return {name: guard.folded for name, guard in self._guards.items()}

    def _make(self, label: Label, cap: int) -> LabelGuard:
        if label.name == "tenant":
            return LabelGuard(self._config.max_tenants, self._config.tenants)
        return LabelGuard(cap, known=label.known)
