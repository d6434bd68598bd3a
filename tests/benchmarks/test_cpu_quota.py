"""The control group in which a quota of CPU time is set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cpu_quota import QuotaUnavailable, cpu_group, find_parent, why_unavailable

VERSION_1 = "35 28 0:31 / /cg/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpuacct,cpu"
CONTAINER = "35 28 0:31 /docker/abc /cg/cpu rw - cgroup cgroup rw,cpu"


def unified(point: Path) -> str:
    (point / "cgroup.controllers").write_text("cpuset cpu memory\n")
    return f"29 28 0:25 / {point} rw shared:4 - cgroup2 cgroup2 rw"


def test_version_1_has_a_folder_of_its_own() -> None:
    """With version 1, the group is below the CPU controller's mount."""
    groups = "4:memory:/m\n3:cpu,cpuacct:/user/x\n0::/\n"

    assert find_parent(VERSION_1, groups) == (Path("/cg/cpu,cpuacct/user/x"), 1)


def test_a_container_sees_its_own_part() -> None:
    """Where only a container's part is mounted, the path is relative to it."""
    assert find_parent(CONTAINER, "3:cpu:/docker/abc\n") == (Path("/cg/cpu"), 1)
    assert find_parent(CONTAINER, "3:cpu:/docker/abc/y") == (Path("/cg/cpu/y"), 1)


def test_version_2_has_one_folder_for_all(tmp_path: Path) -> None:
    """With version 2, the group is below the only mount, if that has the controller."""
    mounts = unified(tmp_path)

    assert find_parent(mounts, "0::/a/b\n") == (tmp_path / "a/b", 2)


def test_version_2_may_lack_the_controller(tmp_path: Path) -> None:
    """A version 2 beside version 1 that has no CPU controller is not used."""
    mounts = unified(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("\n")

    with pytest.raises(QuotaUnavailable, match="no control group"):
        find_parent(mounts, "0::/\n")


@pytest.mark.skipif(why_unavailable() is not None, reason="needs control groups")
def test_this_process_enters_and_leaves() -> None:
    """The limit holds within the block, and the group is gone afterwards."""
    before = Path("/proc/self/cgroup").read_text()

    with cpu_group() as group:
        name = "cpu.max" if group.version == 2 else "cpu.cfs_quota_us"
        inside = (group.folder / "cgroup.procs").read_text().split()
        with group.limit(1.5):
            limited = (group.folder / name).read_text().split()[0]
        unlimited = (group.folder / name).read_text().split()[0]

    assert str(os.getpid()) in inside
    assert limited == "150000"
    assert unlimited in {"max", "-1"}
    assert not group.folder.exists()
    assert Path("/proc/self/cgroup").read_text() == before


@pytest.mark.skipif(why_unavailable() is not None, reason="needs control groups")
def test_groups_of_killed_processes_are_deleted() -> None:
    """What a killed run has left goes with the next run; a living one's group stays."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as ended:
        pass
    with cpu_group() as group:
        left = group.parent / f"hookline-bench-{ended.pid}"
        kept = group.parent / f"hookline-bench-{os.getppid()}"
        for folder in (left, kept):
            folder.mkdir()
    try:
        with cpu_group():
            assert not left.exists()
            assert kept.exists()
    finally:
        kept.rmdir()
