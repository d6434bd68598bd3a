"""Bounds the number of values of labels that clients choose."""

from collections.abc import Mapping

import msgspec

from hookline_metrics.config import MetricsConfig
from hookline_metrics.metric import Label

OTHER = "other"
NONE = "none"
"""Replaces a missing value."""


class KeptGuard(msgspec.Struct, frozen=True, array_like=True):
    """What outlives a guard's process.

    Attributes:
        values: The values that it passes.
        room: How many more it would pass.
        folded: How many it has replaced.
    """

    values: list[str]
    room: int
    folded: int


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

    @property
    def kept(self) -> KeptGuard:
        """What the guard of a later process goes on with."""
        return KeptGuard(sorted(self._values), self._room, self.folded)

    def go_on(self, kept: KeptGuard) -> None:
        """Passes the values that a guard of an earlier process has passed."""
        self._values.update(kept.values)
        self._room, self.folded = kept.room, kept.folded


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

    @property
    def kept(self) -> dict[str, KeptGuard]:
        """What each guard keeps, by label."""
        return {name: guard.kept for name, guard in self._guards.items()}

    def go_on(self, kept: Mapping[str, KeptGuard]) -> None:
        """Lets each guard go on with what was kept of its predecessor."""
        for name, guard in self._guards.items():
            if name in kept:
                guard.go_on(kept[name])

    def _make(self, label: Label, cap: int) -> LabelGuard:
        if label.name == "tenant":
            return LabelGuard(self._config.max_tenants, self._config.tenants)
        if label.name == "adapter":
            return LabelGuard(self._config.max_adapter_labels)
        return LabelGuard(cap, known=label.known)
