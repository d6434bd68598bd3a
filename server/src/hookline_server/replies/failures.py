"""Counts what parsers mend, and counts and logs their failures."""

import logging
from collections import Counter

from hookline_metrics.front_end_parts import ParserFailures, ParserKind, RepairKind

_logger = logging.getLogger(__name__)

_MAX_LOGGED = 10
"""Failures that are logged with their tracebacks; later ones are only counted."""


class FailureCounts:
    """The failures and repairs of a server's parsers, of which there are few."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[ParserKind, str]] = Counter()
        self._repairs: Counter[tuple[ParserKind, str, RepairKind]] = Counter()

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

    def add_repair(self, kind: ParserKind, name: str, repair: RepairKind) -> None:
        """Counts a slip of the model that was mended."""
        self._repairs[kind, name, repair] += 1

    @staticmethod
    def uncounted() -> "FailureCounts":
        """Returns counts that nobody sees, for a reply that is read twice."""
        return _Uncounted()

    def stats(self) -> ParserFailures:
        """Totals since the start."""
        return ParserFailures(
            failures=tuple(
                (kind, name, count) for (kind, name), count in self._counts.items()
            ),
            repairs=tuple((*key, count) for key, count in self._repairs.items()),
        )


class _Uncounted(FailureCounts):
    def add(
        self, kind: ParserKind, name: str, reason: str, error: BaseException | None
    ) -> None:
        """Does nothing."""

    def add_repair(self, kind: ParserKind, name: str, repair: RepairKind) -> None:
        """Does nothing."""
