"""The part of a control group's CPU quota that this process may use."""

from hookline.worker.threads.cgroup import CpuQuota

_LEAST_SHARE = 0.5
_MARGIN, _STEP_DOWN, _STEP_UP = 0.98, 0.95, 0.01


class QuotaShare:
    """Finds the part of the quota by trial.

    A group that has used its quota is stopped until the next period, for tens of
    milliseconds, with a step in the middle; so the process stays below it. Other
    processes of the group use an unknown part: the share shrinks when the group was
    stopped, and grows slowly while it was not.

    Attributes:
        quota: The quota in cores; None if there is none.
    """

    def __init__(self, files: CpuQuota) -> None:
        self._files = files
        self._share = _MARGIN
        self._throttled = files.throttled_ns()
        self.quota = files.cores()

    @property
    def cores(self) -> float | None:
        """Cores that this process may use; None without a quota."""
        return None if self.quota is None else self.quota * self._share

    def look(self) -> int:
        """Reads the files again; returns how long the group was stopped since, ns."""
        self.quota = self._files.cores()
        before, self._throttled = self._throttled, self._files.throttled_ns()
        stopped = max(0, self._throttled - before)
        if stopped:
            self._share = max(_LEAST_SHARE, self._share * _STEP_DOWN)
        else:
            self._share = min(_MARGIN, self._share + _STEP_UP)
        return stopped
