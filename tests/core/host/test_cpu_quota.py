"""The CPU quota of control groups, read from a tree of files like the system's."""

from pathlib import Path

import pytest

from hookline_host import cpu_quota
from hookline_host.cpu_quota import CpuQuota, usable_cores
from hookline_testing.file_trees import write_files

MOUNT_2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
MOUNT_1 = "31 23 0:27 {root} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    """A machine without any control group limits nothing."""
    quota = CpuQuota(tmp_path)

    assert quota.cores() is None
    assert quota.throttled_ns() == 0


def test_the_tightest_group_of_version_2_counts(tmp_path: Path) -> None:
    """The limit of a group holds for all groups inside of it."""
    write_files(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/server\n",
            "proc/self/mountinfo": MOUNT_2,
            "sys/fs/cgroup/pods/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pods/cpu.stat": "usage_usec 9\nthrottled_usec 7\n",
            "sys/fs/cgroup/pods/server/cpu.max": "max 100000\n",
            "sys/fs/cgroup/pods/server/cpu.stat": "throttled_usec 0\n",
        },
    )

    quota = CpuQuota(tmp_path)

    assert quota.cores() == 1.5
    assert quota.throttled_ns() == 7000


@pytest.mark.parametrize(("root", "path"), [("/", "/"), ("/docker/abc", "/docker/abc")])
def test_a_quota_of_version_1_is_read(tmp_path: Path, root: str, path: str) -> None:
    """In a container the group's own part of the tree may be all that is mounted."""
    write_files(
        tmp_path,
        {
            "proc/self/cgroup": f"5:devices:/x\n1:cpu,cpuacct:{path}\n0::/\n",
            "proc/self/mountinfo": MOUNT_1.format(root=root),
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.stat": "nr_throttled 3\nthrottled_time 12345\n",
        },
    )

    quota = CpuQuota(tmp_path)

    assert quota.cores() == 0.5
    assert quota.throttled_ns() == 12345


def test_a_group_of_version_1_may_have_no_quota(tmp_path: Path) -> None:
    """A quota of -1 is none."""
    write_files(
        tmp_path,
        {
            "proc/self/cgroup": "1:cpu:/\n",
            "proc/self/mountinfo": MOUNT_1.format(root="/"),
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )

    assert CpuQuota(tmp_path).cores() is None


def test_a_changed_quota_is_seen(tmp_path: Path) -> None:
    """Orchestrators change the quota of running containers."""
    write_files(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": MOUNT_2,
            "sys/fs/cgroup/cpu.max": "max 100000\n",
        },
    )
    quota = CpuQuota(tmp_path)
    before = quota.cores()
    write_files(tmp_path, {"sys/fs/cgroup/cpu.max": "250000 100000\n"})

    assert before is None
    assert quota.cores() == 2.5


@pytest.mark.parametrize(
    ("quota", "cores"), [("max", 4), ("150000", 2), ("1000", 1), ("9000000", 4)]
)
def test_as_many_processes_compute_as_have_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    """A container with two of the machine's cores gets no process for each of these."""
    write_files(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": MOUNT_2,
            "sys/fs/cgroup/cpu.max": f"{quota} 100000\n",
        },
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(cpu_quota, "CpuQuota", lambda: CpuQuota(tmp_path))

    assert usable_cores() == cores
