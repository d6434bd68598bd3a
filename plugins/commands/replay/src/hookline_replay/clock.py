"""A clock that is set to what was read when the recording was made."""


class RecordedClock:
    """Implements `Clock`; it stands still until it is set.

    Attributes:
        at: Monotonic ns.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.at

    def sleep(self, seconds: float) -> None:
        """Does nothing: time passes by what was recorded alone."""
