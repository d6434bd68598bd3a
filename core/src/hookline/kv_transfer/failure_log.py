"""Counts failures of transfers, and logs some of them."""

import logging
import time
from collections.abc import Callable

from hookline.kv_transfer.failure_reason import Reason, Stage
from hookline.kv_transfer.orders import Failures

_log = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""Failures of one stage and reason are logged so often at most; all are counted."""


class FailureLog:
    """Of one side of a connector; one thread uses it."""

    def __init__(
        self, connector: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connector = connector
        self._clock = clock
        self._counts: Failures = {}
        self._logged_at: dict[tuple[str, str], float] = {}

    def note(
        self,
        stage: Stage,
        reason: Reason | str,
        detail: str,
        *,
        error: BaseException | None = None,
        count: int = 1,
    ) -> None:
        """Counts a failure; its detail goes into the log."""
        by_reason = self._counts.setdefault(str(stage), {})
        by_reason[str(reason)] = by_reason.get(str(reason), 0) + count
        self.log(stage, reason, detail, error=error)

    def log(
        self,
        stage: Stage,
        reason: Reason | str,
        detail: str,
        *,
        error: BaseException | None = None,
    ) -> None:
        """The same of one that is counted elsewhere."""
        now = self._clock()
        if now - self._logged_at.get((stage, reason), -LOG_SECONDS) < LOG_SECONDS:
            return
        self._logged_at[stage, reason] = now
        _log.warning(
            "KV connector %s: %s: %s: %s",
            self._connector,
            stage,
            reason,
            detail,
            exc_info=error,
        )

    def take(self) -> Failures:
        """Counts since the last call."""
        counts, self._counts = self._counts, {}
        return counts
