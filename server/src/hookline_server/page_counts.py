"""Counts the failures of each logger's pages."""

from dataclasses import dataclass

from hookline.payloads import PageStats


@dataclass(slots=True)
class PageCount:
    """Failures of one logger's pages; for the event loop's thread.

    Attributes:
        logger: Name of the logger.
        hung: Number of handlers that are late and still hold their threads.
        raised: Total of handlers that raised or returned something else.
        timed_out: Total of handlers that were late.
        refused: Total of requests that were refused, because threads were missing.
    """

    logger: str
    hung: int = 0
    raised: int = 0
    timed_out: int = 0
    refused: int = 0


class PageCounts:
    """The counts of all loggers that have pages."""

    def __init__(self) -> None:
        self._counts: dict[str, PageCount] = {}

    def of(self, logger: str) -> PageCount:
        """Returns the count of a logger, the same in each call."""
        return self._counts.setdefault(logger, PageCount(logger))

    def stats(self) -> tuple[PageStats, ...]:
        """Returns the current state of each count."""
        return tuple(
            PageStats(
                logger=each.logger,
                hung=each.hung,
                raised=each.raised,
                timed_out=each.timed_out,
                refused=each.refused,
            )
            for each in self._counts.values()
        )
