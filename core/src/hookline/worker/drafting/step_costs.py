"""What steps take with and without drafts, and what asking for drafts takes.

Measured, never assumed: by the number of requests, in classes a fifth wide at most, and
by the drafts for each of them. Of what was not measured the nearest is taken that was.
"""

import math
from typing import NamedTuple

FRESH_STEPS = 256
"""What a step takes without drafts is not believed any longer than this."""
KEPT_STEPS = 1024
"""What verifying takes is believed so long: an amount of drafts that did not pay is not
tried again before."""

_SPAN = 8
"""A mean is over about so many of the newest values …"""
_GAP_STEPS = 32
"""… or over fewer, if there was none for so many steps …"""
_OLD_STEPS = 128
"""… or for so many: then the new one is all that is known."""
_HIGHEST = 2.0
"""A value counts as no more than so many means, …"""
_LOWEST = 0.5
"""… and one below such a share takes the mean's place: what came before was no measure
of a step, but of a compilation."""

_MARGIN = 0.2
"""Of a step is more than what chance makes of it."""


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
        if at - self.at > _OLD_STEPS:
            self.count = 0
        if value < _LOWEST * self.value:
            self.count = 0
        self.at = at
        if self.count == 1 and value < self.value:
            # Of two the lower one counts: the first step of a kind may compile.
            self.value, self.count = value, 2
            return 1.0
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

    def add(self, drafts: int, taken: float, at: int) -> None:
        """Takes a step in."""
        self.drafts += (drafts - self.drafts) * self.time.add(taken, at)

    def is_kept(self, at: int) -> bool:
        """Whether it is still believed; one step alone may have been a slow one."""
        return at - self.time.at <= min(KEPT_STEPS, FRESH_STEPS * self.time.count)


class Verifying(NamedTuple):
    """What drafts add to a step, in ns.

    Attributes:
        likely: In proportion to the nearest number that was measured.
        least: If that one took what it took whatever the number: the first few drafts
            can be dear where the next ones are free.
    """

    likely: float = 0.0
    least: float = 0.0


class StepCosts:
    """Durations are nanoseconds; time is counted in steps."""

    def __init__(self) -> None:
        self._plain: dict[int, RunningMean] = {}
        self._verified: dict[int, dict[int, _Verified]] = {}
        self._asked: dict[tuple[int, int], RunningMean] = {}
        self._first = RunningMean()

    def computed(self, requests: int, drafts: int, taken: float, at: int) -> None:
        """Takes in a step of decodes with so many draft tokens in all."""
        size = _size_class(requests)
        if not drafts:
            self._plain.setdefault(size, RunningMean()).add(taken, at)
            return
        level = _level(requests, drafts)
        entry = self._verified.setdefault(size, {}).setdefault(level, _Verified())
        if entry.drafts and self._is_news(size, entry, taken, at):
            # What is known of other numbers of drafts is out of date, too.
            entry.time.count = 0
            self._verified = {size: {level: entry}}
        entry.add(drafts, taken, at)

    def asked(
        self, requests: int, most: int, taken: float, at: int, new: int = 0
    ) -> None:
        """Takes in that so many requests were asked for up to `most` drafts each.

        Of these `new` for the first time: what a proposer does once for a request, as
        reading its prompt, is no measure of what asking takes from then on.
        """
        if new:
            self._first.add(max(0.0, taken - self.asking(requests, most)) / new, at)
            return
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

    def verifying(self, requests: int, drafts: float, at: int) -> Verifying | None:
        """What so many drafts add to a step; None if nothing like it was measured.

        What a step of as many requests takes without drafts must have been measured.
        """
        if not drafts:
            return Verifying()
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
        # More drafts, measured later, took no less than these would.
        later = [
            self._added(size, other)
            for other_level, other in self._verified[size].items()
            if other_level > level and other.time.at > entry.time.at
        ]
        likely = min([added, *later])
        return Verifying(likely, min(likely, measured))

    def _is_news(self, size: int, entry: _Verified, taken: float, at: int) -> bool:
        """Whether verifying adds less than half of what it did, or twice as much.

        By more than chance would, or a slow step after others that were not.
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
    def first_asking(self) -> float:
        """What asking for a request takes besides the first time; 0 before any."""
        return self._first.value

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


def _level(requests: int, drafts: float) -> int:
    """Drafts for each request; below 1 the power of two above them, counted on."""
    share = drafts / requests
    return math.ceil(share) if share > 1 else 1 + math.ceil(math.log2(share))


def _distance(key: tuple[int, int], size: int, level: int) -> tuple[int, bool, int]:
    """Sorts measurements: the nearest size, then rather fewer drafts than more."""
    return abs(key[0] - size), key[1] > level, abs(key[1] - level)
