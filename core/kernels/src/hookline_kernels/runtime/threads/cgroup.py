"""The CPU quota of the control groups that this process is in, versions 1 and 2."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from hookline_kernels.runtime.threads.files import read_text

_MICROSECOND = 1000


class QuotaFiles(Protocol):
    """The files of one control group."""

    def cores(self) -> float | None:
        """Returns the quota in cores; None if there is none."""
        ...

    def throttled_ns(self) -> int:
        """Returns for how long all its processes were held back in total, in ns."""
        ...


@dataclass(frozen=True, slots=True)
class _Version2:
    folder: Path

    def cores(self) -> float | None:
        quota, _, period = read_text(self.folder / "cpu.max").strip().partition(" ")
        if not (quota.isdecimal() and period.isdecimal()):
            return None  # "max 100000", or the root, which has no such file
        return int(quota) / int(period)

    def throttled_ns(self) -> int:
        return _MICROSECOND * _number(self.folder / "cpu.stat", "throttled_usec")


@dataclass(frozen=True, slots=True)
class _Version1:
    folder: Path

    def cores(self) -> float | None:
        quota = read_text(self.folder / "cpu.cfs_quota_us").strip()
        period = read_text(self.folder / "cpu.cfs_period_us").strip()
        if not (quota.isdecimal() and period.isdecimal()):
            return None  # -1 is no quota
        return int(quota) / int(period)

    def throttled_ns(self) -> int:
        return _number(self.folder / "cpu.stat", "throttled_time")


class CpuQuota:
    """The tightest quota of this process's control group and the groups above it."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Finds the groups once: a process seldom moves.

        Args:
            root: Folder that contains `proc`.
        """
        self._groups = tuple(_groups(root))

    def cores(self) -> float | None:
        """Returns the quota in cores, as it is now; None if there is none."""
        quotas = [each.cores() for each in self._groups]
        return min((each for each in quotas if each is not None), default=None)

    def throttled_ns(self) -> int:
        """Returns for how long groups with a quota were held back in total, in ns."""
        held = (
            each.throttled_ns() for each in self._groups if each.cores() is not None
        )
        return max(held, default=0)


def _groups(root: Path) -> Iterator[QuotaFiles]:
    """Returns the groups from this process's own up to the ones mounted here."""
    paths = dict(_paths(read_text(root / "proc/self/cgroup")))
    for point, base, kind, controllers in _mounts(
        read_text(root / "proc/self/mountinfo")
    ):
        own = paths.get("cpu" if kind == "cgroup" else "")
        if own is None or (kind == "cgroup" and "cpu" not in controllers):
            continue
        mounted = root / point.lstrip("/")
        version = _Version1 if kind == "cgroup" else _Version2
        # In a container the group may be named as the host sees it, while only its
        # own part of the tree is mounted.
        path = PurePosixPath(own)
        inner = path.relative_to(base) if path.is_relative_to(base) else path
        parts = inner.relative_to("/").parts if inner.is_absolute() else inner.parts
        for depth in range(len(parts), -1, -1):
            folder = mounted.joinpath(*parts[:depth])
            if folder.is_dir():
                yield version(folder)


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Yields (controller, path) of lines "number:controllers:path"."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for each in controllers.split(","):
            yield each, path


def _mounts(text: str) -> Iterator[tuple[str, str, str, set[str]]]:
    """Yields (mount point, root, kind, options) of the mounted control groups."""
    for line in text.splitlines():
        place, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        if kind in {"cgroup", "cgroup2"}:
            _, _, _, base, point, *_ = place.split(" ")
            yield point, base, kind, set(options.split(","))


def _number(path: Path, name: str) -> int:
    for line in read_text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
