"""What steps take with and without drafts, and what asking for drafts takes.

Measured, never assumed: by the number of requests, in classes a fifth wide at most, and
by the drafts for each of them. Of what was not measured the nearest is taken that was.
"""

import math

FRESH_STEPS = 256
"""What a step takes without drafts is not believed any longer than this."""
KEPT_STEPS = 1024
"""What verifying takes is believed so long: an amount of drafts that did not pay is not
tried again before."""

_SPAN = 8
"""A mean is over about so many of the newest values …"""
_GAP_STEPS = 32
"""… or over fewer, if there was none for so many steps."""
_HIGHEST = 2.0
"""A value counts as no more than so many means, …"""
_LOWEST = 0.5
"""… and one below such a share takes the mean's place: what came before was no measure
of a step, but of a compilation."""


class RunningMean:
    """Of durations that may jump, whose outliers are slow ones.

    Attributes:
        value: 0 before the first.
        count: Values, up to the span.
        at: Step of the last one.
    """

    __slots__ = ("at", "count", "value")

    def __init__(self) -> None:
        self.value, self.count, self.at = 0.0, 0, 0

    def add(self, value: float, at: int) -> float:
        """Takes a value in that was measured at a step; returns its weight."""
        if at - self.at > _GAP_STEPS:
            self.count = min(self.count, 2)
        if value < _LOWEST * self.value:
            self.count = 0
        self.at = at
        weight = 1 / (self.count + 1)
        if self.count:
            value = min(value, _HIGHEST * self.value)
        self.value += (value - self.value) * weight
        self.count = min(self.count + 1, _SPAN - 1)
        return weight


class _Verified:
    """Steps of one class and level: what they took, and how many drafts they had."""

    __slots__ = ("drafts", "time")

    def __init__(self) -> None:
        self.time, self.drafts = RunningMean(), 0.0

    def add(self, drafts: int, taken: float, at: int) -> float:
        """Takes a step in; returns its weight."""
        weight = self.time.add(taken, at)
        self.drafts += (drafts - self.drafts) * weight
        return weight


class StepCosts:
    """Durations are nanoseconds; time is counted in steps."""

    def __init__(self) -> None:
        self._plain: dict[int, RunningMean] = {}
        self._verified: dict[int, dict[int, _Verified]] = {}
        self._asked: dict[tuple[int, int], RunningMean] = {}

    def computed(self, requests: int, drafts: int, taken: float, at: int) -> None:
        """Takes in a step of decodes with so many draft tokens in all."""
        size = _size_class(requests)
        if not drafts:
            self._plain.setdefault(size, RunningMean()).add(taken, at)
            return
        level = math.ceil(drafts / requests)
        entry = self._verified.setdefault(size, {}).setdefault(level, _Verified())
        is_first = not entry.drafts
        if entry.add(drafts, taken, at) == 1 and not is_first:
            # Verifying has become cheap: what is known of the rest is out of date.
            self._verified = {size: {level: entry}}

    def asked(self, requests: int, most: int, taken: float, at: int) -> None:
        """Takes in that so many requests were asked for up to `most` drafts each."""
        key = (_size_class(requests), most)
        self._asked.setdefault(key, RunningMean()).add(taken, at)

    def plain(self, requests: int, at: int) -> float | None:
        """What a step without drafts takes; None if it must be measured first."""
        mean = self._plain.get(_size_class(requests))
        if mean is None or mean.count < 2 or at - mean.at > FRESH_STEPS:
            return None
        return mean.value

    def plain_at(self, requests: int) -> int:
        """When a step without drafts was last measured; there must have been one."""
        return self._plain[_size_class(requests)].at

    def verifying(self, requests: int, drafts: float, at: int) -> float | None:
        """What so many drafts add to a step; None if nothing like it was measured.

        What a step of as many requests takes without drafts must have been measured.
        """
        size, level = _size_class(requests), math.ceil(drafts / requests)
        entry = self._verified.get(size, {}).get(level)
        if entry is None or at - entry.time.at > KEPT_STEPS:
            known = [
                (other_size, other)
                for other_size, levels in self._verified.items()
                for other, entry in levels.items()
                if at - entry.time.at <= KEPT_STEPS and other_size in self._plain
            ]
            if not known:
                return None
            size, level = min(known, key=lambda key: _distance(key, size, level))
            entry = self._verified[size][level]
        added = self._added(size, entry) / entry.drafts * drafts
        # More drafts, measured later, took no less than these would.
        later = [
            self._added(size, other)
            for other_level, other in self._verified[size].items()
            if other_level > level and other.time.at > entry.time.at
        ]
        return min([added, *later])

    def _added(self, size: int, entry: _Verified) -> float:
        return max(0.0, entry.time.value - self._plain[size].value)

    def asking(self, requests: int, most: int) -> float:
        """What asking takes; 0 before the first time."""
        size = _size_class(requests)
        mean = self._asked.get((size, most))
        if mean is None:
            if not self._asked:
                return 0.0
            key = min(self._asked, key=lambda key: _distance(key, size, most))
            mean = self._asked[key]
        return mean.value


def _size_class(requests: int) -> int:
    """Up to 8 requests each number is one; above, four to each power of two."""
    shift = max(0, requests.bit_length() - 3)
    return 4 * shift + (requests >> shift)


def _distance(key: tuple[int, int], size: int, level: int) -> tuple[int, bool, int]:
    """Sorts measurements: the nearest size, then rather fewer drafts than more."""
    return abs(key[0] - size), key[1] > level, abs(key[1] - level)
