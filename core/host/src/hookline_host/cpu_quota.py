"""The CPU quota of the control groups that this process is in."""

import math
import os
import sys
from pathlib import Path

from hookline_host.control_groups import ControlGroup, groups_of
from hookline_host.files import read_number, read_table, read_text

_MICROSECOND = 1000


class CpuQuota:
    """The tightest quota of this process's control group and the groups above it."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Finds the groups once: a process seldom moves.

        Args:
            root: Folder that contains `proc`.
        """
        self._groups = groups_of("cpu", root)

    def cores(self) -> float | None:
        """Returns the quota in cores, as it is now; None if there is none."""
        quotas = map(_cores, self._groups)
        return min((each for each in quotas if each is not None), default=None)

    def throttled_ns(self) -> int:
        """Returns for how long groups with a quota were held back in total, in ns."""
        held = (_throttled_ns(each) for each in self._groups if _cores(each))
        return max(held, default=0)


def usable_cores() -> int:
    """Returns how many processes of this one's control group can compute at a time."""
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = CpuQuota().cores()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _cores(group: ControlGroup) -> float | None:
    if group.version == 2:
        quota, _, period = read_text(group.folder / "cpu.max").strip().partition(" ")
        if not (quota.isdecimal() and period.isdecimal()):
            return None  # "max 100000", or the root, which has no such file
        return int(quota) / int(period)
    most = read_number(group.folder / "cpu.cfs_quota_us")
    each = read_number(group.folder / "cpu.cfs_period_us")
    return most / each if most and each else None  # -1 is no quota


def _throttled_ns(group: ControlGroup) -> int:
    table = read_table(group.folder / "cpu.stat")
    if group.version == 2:
        return _MICROSECOND * table.get("throttled_usec", 0)
    return table.get("throttled_time", 0)
