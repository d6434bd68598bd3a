"""Limits the CPU time of a process and its descendants by a control group (cgroup).

Knows both versions: `cpu.max` of version 2, and `cpu.cfs_quota_us` of version 1. Needs
the right to create groups, which usually only root has.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PERIOD_MICROSECONDS = 100_000
"""The kernel's default, which container runtimes keep."""
NAME = "hookline-bench"


class QuotaUnavailable(Exception):  # noqa: N818 - reads well in a raise
    """This process may not limit CPU time; the message says why."""


@dataclass(frozen=True, slots=True)
class CpuGroup:
    """A control group without limit, until one is set.

    Attributes:
        folder: The group's folder.
        parent: The folder of the group in which its processes were before.
        version: Of the control groups: 1 or 2.
    """

    folder: Path
    parent: Path
    version: int

    @contextmanager
    def limit(self, cores: float) -> Iterator[None]:
        """Limits all processes of the group together to so many cores' time.

        Raises:
            QuotaUnavailable: The limit cannot be set.
        """
        self._write_quota(round(cores * PERIOD_MICROSECONDS))
        try:
            yield
        finally:
            self._write_quota(None)

    def enter(self) -> None:
        """Moves this process into the group; later children start in it."""
        _write(self.folder / "cgroup.procs", str(os.getpid()))

    def remove(self) -> None:
        """Moves all processes back to the parent group and deletes the group."""
        for pid in (self.folder / "cgroup.procs").read_text().split():
            try:
                (self.parent / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                continue
        self.folder.rmdir()

    def _write_quota(self, microseconds: int | None) -> None:
        if self.version == 2:
            quota = "max" if microseconds is None else str(microseconds)
            _write(self.folder / "cpu.max", f"{quota} {PERIOD_MICROSECONDS}")
        else:
            quota = "-1" if microseconds is None else str(microseconds)
            _write(self.folder / "cpu.cfs_quota_us", quota)


@contextmanager
def cpu_group() -> Iterator[CpuGroup]:
    """Runs this process in a new group, and all children that it starts.

    Raises:
        QuotaUnavailable: The system has no such groups, or this process may not use
            them.
    """
    group = _create()
    try:
        group.enter()
        yield group
    finally:
        group.remove()


def why_unavailable() -> str | None:
    """Returns why CPU time cannot be limited here; None if it can."""
    try:
        group = _create()
    except QuotaUnavailable as error:
        return str(error)
    try:
        with group.limit(1.0):
            return None
    except QuotaUnavailable as error:
        return str(error)
    finally:
        group.remove()


def find_parent(mounts: str, groups: str) -> tuple[Path, int]:
    """Returns the folder of a process's own group, and the version.

    Args:
        mounts: Text of its /proc/self/mountinfo.
        groups: Text of its /proc/self/cgroup.

    Raises:
        QuotaUnavailable: The CPU controller is not mounted.
    """
    own = dict(line.split(":", 2)[1:] for line in groups.splitlines())
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split()[:3]
        for controllers, path in own.items():
            if kind == "cgroup" and "cpu" in controllers.split(","):
                if "cpu" in options.split(","):
                    return _inside(point, root, path), 1
            elif kind == "cgroup2" and not controllers and _has_cpu(point):
                return _inside(point, root, path), 2
    raise QuotaUnavailable("no control group for CPU time is mounted")


def _has_cpu(point: str) -> bool:
    try:
        return "cpu" in (Path(point) / "cgroup.controllers").read_text().split()
    except OSError:
        return False


def _inside(point: str, root: str, path: str) -> Path:
    """Returns a group's folder below a mount that shows only the group `root`."""
    shown = PurePosixPath(path)
    if shown.is_relative_to(root):
        return Path(point) / shown.relative_to(root)
    return Path(point)


def _create() -> CpuGroup:
    try:
        mounts = Path("/proc/self/mountinfo").read_text()
        groups = Path("/proc/self/cgroup").read_text()
    except OSError as error:
        raise QuotaUnavailable(f"{error.filename}: {error.strerror}") from error
    parent, version = find_parent(mounts, groups)
    if version == 2 and "cpu" not in _read(parent / "cgroup.subtree_control").split():
        _write(parent / "cgroup.subtree_control", "+cpu")
    _remove_left(parent)
    folder = parent / f"{NAME}-{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise QuotaUnavailable(f"{folder}: {error.strerror}") from error
    return CpuGroup(folder, parent, version)


def _remove_left(parent: Path) -> None:
    """Deletes the groups that killed processes could not delete."""
    for folder in parent.glob(f"{NAME}-*"):
        if not Path("/proc", folder.name.rpartition("-")[2]).exists():
            with suppress(OSError):  # of a user who may not, or still in use
                folder.rmdir()


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise QuotaUnavailable(f"{file}: {error.strerror}") from error


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise QuotaUnavailable(f"{file}: {error.strerror}") from error
