"""Measured durations of steps with and without drafts, and of the proposer's calls.

Measurements are grouped by the number of requests, in size classes at most a fifth
wide, and by drafts per request. A missing one is replaced by the nearest.
"""

import math
from typing import NamedTuple

FRESH_STEPS = 256
"""Steps for which the measured duration of a step without drafts is valid."""
KEPT_STEPS = 1024
"""Steps for which a verification cost is valid; an unprofitable number of drafts is not
tried again before."""

_SPAN = 8
"""Number of newest values that a mean covers, about."""
_GAP_STEPS = 32
"""After a gap of this many steps, older values count as two."""
_OLD_STEPS = 128
"""After a gap of this many steps, older values are dropped."""
_HIGHEST = 2.0
"""Values are clamped to this many times the mean."""
_LOWEST = 0.5
"""A value below this share of the mean replaces it: the older ones included a
compilation."""

_MARGIN = 0.2
"""Share of a step's duration beyond which a difference is not noise."""


class RunningMean:
    """Mean of the newest durations; they may jump, and outliers are slow ones.

    Attributes:
        value: The mean; 0 before the first value.
        count: Number of values, up to the span.
        at: Step of the last value.
    """

    __slots__ = ("at", "count", "value")

    def __init__(self) -> None:
        self.value, self.count, self.at = 0.0, 0, 0

    def add(self, value: float, at: int) -> float:
        """Adds a value measured at step `at`; returns its weight in the mean."""
        if at - self.at > _GAP_STEPS:
            self.count = min(self.count, 2)
        if at - self.at > _OLD_STEPS:
            self.count = 0
        if value < _LOWEST * self.value:
            self.count = 0
        self.at = at
        if self.count == 1 and value < self.value:
            # The lower of two values counts: the first step of a kind may compile.
            self.value, self.count = value, 2
            return 1.0
        weight = 1 / (self.count + 1)
        if self.count:
            value = min(value, _HIGHEST * self.value)
        self.value += (value - self.value) * weight
        self.count = min(self.count + 1, _SPAN - 1)
        return weight


class _Verified:
    """Mean duration and number of drafts of steps of one size class and level."""

    __slots__ = ("drafts", "time")

    def __init__(self) -> None:
        self.time, self.drafts = RunningMean(), 0.0

    def add(self, drafts: int, taken: float, at: int) -> None:
        """Adds a step with `drafts` draft tokens that took `taken` ns."""
        self.drafts += (drafts - self.drafts) * self.time.add(taken, at)

    def is_kept(self, at: int) -> bool:
        """Whether the mean is still valid; that of a single step expires sooner."""
        return at - self.time.at <= min(KEPT_STEPS, FRESH_STEPS * self.time.count)


class VerificationCost(NamedTuple):
    """Time that drafts add to a step, in ns.

    Attributes:
        likely: In proportion to the nearest measured number of drafts.
        least: If the measured time did not depend on the number of drafts: the first
            few can be expensive and further ones free.
    """

    likely: float = 0.0
    least: float = 0.0


class StepCosts:
    """Costs of one engine: durations in ns, time counted in steps."""

    def __init__(self) -> None:
        self._plain: dict[int, RunningMean] = {}
        self._verified: dict[int, dict[int, _Verified]] = {}
        self._proposals: dict[tuple[int, int], RunningMean] = {}
        self._first = RunningMean()

    def record_step(self, requests: int, drafts: int, taken: float, at: int) -> None:
        """Records a decode step with `drafts` draft tokens over all requests."""
        size = _size_class(requests)
        if not drafts:
            self._plain.setdefault(size, RunningMean()).add(taken, at)
            return
        level = _level(requests, drafts)
        entry = self._verified.setdefault(size, {}).setdefault(level, _Verified())
        if entry.drafts and self._is_news(size, entry, taken, at):
            # Measurements of other numbers of drafts are out of date, too.
            entry.time.count = 0
            self._verified = {size: {level: entry}}
        entry.add(drafts, taken, at)

    def record_proposal(
        self, requests: int, most: int, taken: float, at: int, new: int = 0
    ) -> None:
        """Records a proposer's call for up to `most` drafts of each request.

        The `new` requests had their first call, in which a proposer may do work once,
        such as reading the prompt; the excess over other calls is recorded apart.
        """
        if new:
            extra = max(0.0, taken - self.proposal(requests, most))
            self._first.add(extra / new, at)
            return
        key = (_size_class(requests), most)
        self._proposals.setdefault(key, RunningMean()).add(taken, at)

    def plain(self, requests: int, at: int) -> float | None:
        """Returns a step's duration without drafts; None if it must be measured."""
        mean = self._plain.get(_size_class(requests))
        if mean is None or mean.count < 2 or at - mean.at > FRESH_STEPS:
            return None
        return mean.value

    def plain_at(self, requests: int) -> int:
        """Returns the step at which `plain` was last measured.

        Raises:
            KeyError: It was never measured.
        """
        return self._plain[_size_class(requests)].at

    def verification(
        self, requests: int, drafts: float, at: int
    ) -> VerificationCost | None:
        """Returns the time that `drafts` drafts add to a step, or None if unknown.

        A step of as many requests without drafts must have been measured.
        """
        if not drafts:
            return VerificationCost()
        size, level = _size_class(requests), _level(requests, drafts)
        entry = self._verified.get(size, {}).get(level)
        if entry is None or not entry.is_kept(at):
            known = [
                (other_size, other)
                for other_size, levels in self._verified.items()
                for other, entry in levels.items()
                if entry.is_kept(at) and other_size in self._plain
            ]
            if not known:
                return None
            size, level = min(known, key=lambda key: _distance(key, size, level))
            entry = self._verified[size][level]
        measured = self._added(size, entry)
        added = measured / entry.drafts * drafts
        # Upper bound: what more drafts took in a later measurement.
        later = [
            self._added(size, other)
            for other_level, other in self._verified[size].items()
            if other_level > level and other.time.at > entry.time.at
        ]
        likely = min([added, *later])
        return VerificationCost(likely, min(likely, measured))

    def _is_news(self, size: int, entry: _Verified, taken: float, at: int) -> bool:
        """Whether the cost of verification has halved, or doubled since long ago.

        Differences within `_MARGIN` are noise.
        """
        plain = self._plain.get(size)
        if plain is None:
            return taken < _LOWEST * entry.time.value
        before, now = entry.time.value - plain.value, taken - plain.value
        if abs(now - before) < _MARGIN * plain.value:
            return False
        is_old = at - entry.time.at > _GAP_STEPS
        return now < _LOWEST * before or (is_old and now > _HIGHEST * before)

    def _added(self, size: int, entry: _Verified) -> float:
        return max(0.0, entry.time.value - self._plain[size].value)

    @property
    def first_proposal(self) -> float:
        """Extra time of a request's first proposal; 0 before any was measured."""
        return self._first.value

    def proposal(self, requests: int, most: int) -> float:
        """Returns the duration of a proposer's call; 0 before the first one."""
        size = _size_class(requests)
        mean = self._proposals.get((size, most))
        if mean is None:
            if not self._proposals:
                return 0.0
            key = min(self._proposals, key=lambda key: _distance(key, size, most))
            mean = self._proposals[key]
        return mean.value


def _size_class(requests: int) -> int:
    """Returns a class: one per number up to 8, above that four per power of two."""
    shift = max(0, requests.bit_length() - 3)
    return 4 * shift + (requests >> shift)


def _level(requests: int, drafts: float) -> int:
    """Returns drafts per request, rounded up; below 1, minus the halvings of 1."""
    share = drafts / requests
    return math.ceil(share) if share > 1 else 1 + math.ceil(math.log2(share))


def _distance(key: tuple[int, int], size: int, level: int) -> tuple[int, bool, int]:
    """Returns a sort key: nearest size, then fewer drafts before more, then nearest."""
    return abs(key[0] - size), key[1] > level, abs(key[1] - level)
