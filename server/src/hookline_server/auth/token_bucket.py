"""A token bucket without a timer: it is refilled when it is looked at."""

SECONDS_OF_A_MINUTE = 60.0


class TokenBucket:
    """Holds what may be used up at once, and refills evenly within a minute.

    It can be overdrawn, because the cost of a request is known only in the end.

    Attributes:
        capacity: What it holds when it is full, which is what a minute brings.
    """

    __slots__ = ("_at", "_level", "capacity")

    def __init__(self, per_minute: int, now: float) -> None:
        """Starts full; `now` is a time in seconds, as everywhere here."""
        self.capacity = per_minute
        self._level = float(per_minute)
        self._at = now

    def level(self, now: float) -> float:
        """Returns what it holds; negative if it is overdrawn."""
        per_second = self.capacity / SECONDS_OF_A_MINUTE
        refilled = self._level + max(now - self._at, 0.0) * per_second
        self._level = min(refilled, float(self.capacity))
        self._at = now
        return self._level

    def consume(self, amount: float, now: float) -> None:
        """Takes an amount out, even if it holds less."""
        self._level = self.level(now) - amount

    def seconds_until(self, level: float, now: float) -> float:
        """Returns the time until it holds this much; 0 if it does."""
        missing = level - self.level(now)
        return max(missing, 0.0) * SECONDS_OF_A_MINUTE / self.capacity

    def resize(self, per_minute: int, now: float) -> None:
        """Changes the capacity; what was used stays used."""
        used = self.capacity - self.level(now)
        self.capacity = per_minute
        self._level = per_minute - used
