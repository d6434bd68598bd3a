"""The part of a control group's CPU quota that this process uses."""

from hookline_host.cpu_quota import CpuQuota

_LEAST_SHARE = 0.5
_MARGIN, _STEP_DOWN, _STEP_UP = 0.98, 0.95, 0.02


class QuotaShare:
    """Finds the part of the quota by trial.

    A group that has used its quota is stopped until the next period, for tens of
    milliseconds, with a step in the middle; so the process stays below it. Other
    processes of the group use an unknown part: the share shrinks when the group was
    stopped, and grows slowly while it was not. A group that used too much is stopped
    for it a period later, so the look after one that shrank the share does not count.

    Attributes:
        quota: The quota in cores; None if there is none.
    """

    def __init__(self, files: CpuQuota, engines: int = 1) -> None:
        """Starts with an equal part for each of the group's engines."""
        self._engines = engines
        self._files = files
        self._share = _MARGIN
        self._has_shrunk = False
        self._throttled = files.throttled_ns()
        self.quota = files.cores()

    @property
    def cores(self) -> float | None:
        """Cores that this process may use; None without a quota."""
        return None if self.quota is None else self.quota * self._share / self._engines

    def look(self) -> int:
        """Reads the files again; returns how long the group was stopped since, ns."""
        self.quota = self._files.cores()
        before, self._throttled = self._throttled, self._files.throttled_ns()
        stopped = max(0, self._throttled - before)
        if not stopped:
            self._share = min(_MARGIN, self._share + _STEP_UP)
        elif not self._has_shrunk:
            self._share = max(_LEAST_SHARE, self._share * _STEP_DOWN)
        self._has_shrunk = bool(stopped) and not self._has_shrunk
        return stopped
