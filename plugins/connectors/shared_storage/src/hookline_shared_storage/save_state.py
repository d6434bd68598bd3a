"""Whether blocks can be saved: counts failures, logs changes, and waits after each."""

import errno
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""Pauses after failures in a row; each is twice as long as the one before."""

_REASONS: Mapping[int | None, str] = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "disk_full",
    errno.EROFS: "read_only",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ELOOP: "permission",
    errno.ENOENT: "folder_gone",
    errno.ENOTDIR: "folder_gone",
    errno.ESTALE: "stale_handle",
    errno.EIO: "io_error",
}
_OTHER = "os_error"
_SKIPPED = "not_saved"


class SaveState:
    """Whether saves to a folder succeed. Thread-safe."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        """Begins well.

        Args:
            folder: What log lines name.
            clock: Seconds.
        """
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()
        self._reason = ""
        self._pause = FIRST_PAUSE_SECONDS
        self._retry_at = 0.0
        self._incidents: Counter[str] = Counter()

    @property
    def is_good(self) -> bool:
        """Whether the last save succeeded, or none was tried."""
        return not self._reason

    def may_try(self) -> bool:
        """Returns whether to save now; counts what is not saved for a failure."""
        with self._lock:
            if self.is_good or self._clock() >= self._retry_at:
                return True
            self._incidents[_SKIPPED] += 1
            return False

    def succeeded(self) -> None:
        """Notes a save."""
        with self._lock:
            if self.is_good:
                return
            self._reason, self._pause = "", FIRST_PAUSE_SECONDS
        _log.info("KV blocks are saved to %s again", self._folder)

    def failed(self, error: OSError) -> None:
        """Counts a failed save; further ones wait for a while."""
        reason = _REASONS.get(error.errno, _OTHER)
        with self._lock:
            self._incidents[reason] += 1
            is_new, self._reason = reason != self._reason, reason
            self._retry_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        if is_new:
            _log.warning(
                "KV blocks cannot be saved to %s (%s), and are not until it is well "
                "again; requests are not affected: %s",
                self._folder,
                reason,
                error,
            )

    def take_incidents(self) -> dict[str, int]:
        """Returns the failures by reason since the last call."""
        with self._lock:
            incidents, self._incidents = dict(self._incidents), Counter()
        return incidents
