"""Adds up frames to the numbers of the last minute, for a terminal."""

from collections import Counter

from hookline_live.frame import (
    BIN_0_NS,
    BINS_PER_DECADE,
    COLUMN_MS,
    WINDOW_SECONDS,
    Column,
    Frame,
    Row,
)

WAITING = frozenset(("queued", "gated", "preempted"))
_WINDOW_COLUMNS = WINDOW_SECONDS * 1000 // COLUMN_MS


class Totals:
    """What frames tell, added up.

    Attributes:
        frame: The latest frame.
        lost: Frames that were left out because this reader is slow.
    """

    def __init__(self) -> None:
        self.frame = Frame(0)
        self.lost = 0
        self._columns: list[Column] = []
        self._rows: dict[tuple[int, int], Row] = {}
        self._read_at: dict[tuple[int, int], int] = {}

    def add(self, frame: Frame) -> None:
        """Takes the next frame."""
        self.frame = frame
        for engine in frame.engines:
            self._columns += engine.columns
            for row in engine.rows:
                key = engine.index, row.id
                self._rows[key], self._read_at[key] = row, frame.at
            done = iter(engine.progress)
            for request_id, output in zip(done, done, strict=True):
                open_row = self._rows.get((engine.index, request_id))
                if open_row is not None and not open_row.end:
                    open_row.output = output
        first = frame.at // COLUMN_MS - _WINDOW_COLUMNS
        self._columns = [each for each in self._columns if each.number >= first]
        for key in [key for key, row in self._rows.items() if row.end]:
            del self._rows[key], self._read_at[key]

    def clear(self) -> None:
        """Forgets all, before a frame of a whole window."""
        self._columns, self._rows, self._read_at = [], {}, {}

    def sum(self, name: str, seconds: int = WINDOW_SECONDS) -> int:
        """Returns the sum of a column's field over the last seconds."""
        first = self.frame.at // COLUMN_MS - seconds * 1000 // COLUMN_MS
        return sum(getattr(each, name) for each in self._columns if each.number > first)

    def longest(self) -> Column:
        """Returns the column with the longest step."""
        return max(self._columns, key=lambda each: each.longest_us, default=Column(0))

    def counter(self, name: str) -> Counter[str]:
        """Returns the sums of a column's field by its keys."""
        found: Counter[str] = Counter()
        for each in self._columns:
            found.update(getattr(each, name))
        return found

    def quantile(self, kind: str, share: float) -> float | None:
        """Returns an upper bound of a quantile in seconds, as exact as bins are."""
        bins: Counter[int] = Counter()
        for each in self._columns:
            bins.update(each.durations.get(kind, {}))
        wanted, seen = share * bins.total(), 0
        for bin_number in sorted(bins):
            seen += bins[bin_number]
            if seen >= wanted:
                decades = (bin_number + 1) / BINS_PER_DECADE
                return float(BIN_0_NS * 10**decades / 1e9)
        return None

    def requests(self) -> list[tuple[int, Row, float]]:
        """Returns (engine, request, age in seconds) of open requests, oldest first."""
        found = []
        for key, row in self._rows.items():
            begin = row.phases[0][1] if row.phases else 0
            age = (self.frame.at - self._read_at[key] - begin) / 1000
            found.append((key[0], row, age))
        return sorted(found, key=lambda each: -each[2])
