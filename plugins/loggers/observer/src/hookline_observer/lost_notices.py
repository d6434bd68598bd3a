"""Counts the notices that never reach the loggers, over all observer processes."""


class LostNotices:
    """Adds up what front ends have dropped, and what came too late to be told.

    Attributes:
        by_front_end: What each front end has dropped, by its own count.
        before: What others have dropped that are gone, and what came too late.
    """

    def __init__(
        self, before: int = 0, by_front_end: dict[int, int] | None = None
    ) -> None:
        """Goes on with what the process before this one has counted."""
        self.before = before
        self.by_front_end = by_front_end or {}
        self._at_start = self.total

    @property
    def total(self) -> int:
        """All of them, since the first process."""
        return self.before + sum(self.by_front_end.values())

    @property
    def here(self) -> int:
        """Those since this process has begun, which its loggers lack."""
        return self.total - self._at_start

    def note(self, front_end: int, lost: int) -> None:
        """Takes a front end's count; a new process of it counts from 0."""
        if lost < self.by_front_end.get(front_end, 0):
            self.leave(front_end)
        self.by_front_end[front_end] = lost

    def miss(self) -> None:
        """Counts one that came too late."""
        self.before += 1

    def leave(self, front_end: int) -> None:
        """Keeps the count of a front end that has ended."""
        self.before += self.by_front_end.pop(front_end, 0)
