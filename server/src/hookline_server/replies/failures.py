"""Counts and logs the failures of parsers."""

import logging
from collections import Counter

from hookline_metrics.front_end_parts import ParserFailures, ParserKind

_logger = logging.getLogger(__name__)

_MAX_LOGGED = 10
"""Failures that are logged with their tracebacks; later ones are only counted."""


class FailureCounts:
    """The failures of a server's parsers, of which there are at most two."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[ParserKind, str]] = Counter()

    def watch(self, kind: ParserKind, name: str) -> None:
        """Makes a parser appear in metrics before its first failure."""
        self._counts[kind, name] += 0

    def add(
        self, kind: ParserKind, name: str, reason: str, error: BaseException | None
    ) -> None:
        """Counts a failure; its reply goes on as content."""
        self._counts[kind, name] += 1
        if self._counts.total() <= _MAX_LOGGED:
            message = "%s parser %r failed, its reply goes on as content: %s"
            _logger.error(message, kind, name, reason, exc_info=error)

    @staticmethod
    def uncounted() -> "FailureCounts":
        """Returns counts that nobody sees, for a reply that is read twice."""
        return _Uncounted()

    def stats(self) -> ParserFailures:
        """Totals since the start."""
        return ParserFailures(
            failures=tuple(
                (kind, name, count) for (kind, name), count in self._counts.items()
            )
        )


class _Uncounted(FailureCounts):
    def add(
        self, kind: ParserKind, name: str, reason: str, error: BaseException | None
    ) -> None:
        """Does nothing."""
