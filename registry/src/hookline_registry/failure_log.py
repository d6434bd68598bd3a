"""Counts the failures of a plugin by kind, and logs each kind at intervals."""

import logging
import time
from collections import Counter
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""Default interval between two log lines about failures of one kind."""

_MAX_KINDS = 1000
"""Maximum number of kinds whose last log time is kept; plugins can invent kinds."""

Kind = tuple[str, ...]
"""Key under which a failure is counted and logged, such as (hook, cause)."""


class FailureLog:
    """The failures of one plugin; for one thread.

    Attributes:
        count: Total number of failures.
        last: The latest failure in one line.
    """

    def __init__(
        self,
        plugin: str,
        *,
        log_seconds: float = LOG_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the log of a plugin.

        Args:
            plugin: Role and name, as log lines show them, such as `proposer ngram`.
            log_seconds: Minimum interval between log lines of one kind; `math.inf` logs
                each kind once.
            clock: Monotonic clock in seconds.
        """
        self._plugin = plugin
        self._log_seconds = log_seconds
        self._clock = clock
        self._counts: Counter[Kind] = Counter()
        self._logged_at: dict[Kind, float] = {}
        self.count = 0
        self.last: str | None = None

    def note(
        self,
        kind: Kind,
        detail: str,
        *,
        error: BaseException | None = None,
        count: int = 1,
    ) -> None:
        """Counts failures of one kind; logs at most one per `log_seconds`."""
        self._counts[kind] += count
        self.count += count
        self.last = f"{': '.join(kind)}: {detail}"
        self.log(kind, detail, error=error)

    def log(
        self, kind: Kind, detail: str, *, error: BaseException | None = None
    ) -> None:
        """Logs a failure that is counted elsewhere, at most one per `log_seconds`.

        Exceptions of one kind raised at different places are logged separately.
        """
        now = self._clock()
        key = kind
        if error is not None:
            key = (*kind, type(error).__qualname__, _origin(error))
        logged_at = self._logged_at.get(key)
        if logged_at is not None and now - logged_at < self._log_seconds:
            return
        if len(self._logged_at) >= _MAX_KINDS:
            self._logged_at.clear()
        self._logged_at[key] = now
        _LOGGER.log(
            logging.WARNING if error is None else logging.ERROR,
            "%s: %s: %s; failures like this are only counted for a while",
            self._plugin,
            ": ".join(kind),
            detail,
            exc_info=error,
        )

    def drain(self) -> dict[Kind, int]:
        """Returns the counts since the last call."""
        counts, self._counts = self._counts, Counter()
        return dict(counts)


def _origin(error: BaseException) -> str:
    """Returns where an error was raised; its text may differ each time."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
