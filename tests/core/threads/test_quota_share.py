"""The part of a CPU quota that a process may use, found by trial."""

from pathlib import Path

from hookline.worker.threads.cgroup import CpuQuota
from hookline.worker.threads.quota_share import QuotaShare

MOUNT = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def write(root: Path, *, quota: str, throttled: int = 0) -> None:
    group = root / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True, exist_ok=True)
    (root / "proc" / "self").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "self" / "cgroup").write_text("0::/\n")
    (root / "proc" / "self" / "mountinfo").write_text(MOUNT)
    (group / "cpu.max").write_text(f"{quota} 100000\n")
    (group / "cpu.stat").write_text(f"throttled_usec {throttled}\n")


def test_without_a_quota_nothing_is_limited(tmp_path: Path) -> None:
    """A group may be given a quota later."""
    write(tmp_path, quota="max")
    share = QuotaShare(CpuQuota(tmp_path))
    before = share.cores
    write(tmp_path, quota="100000")
    share.look()

    assert before is None
    assert share.cores is not None
    assert 0.9 < share.cores < 1.0


def test_a_group_that_is_stopped_takes_less_until_it_is_no_longer(
    tmp_path: Path,
) -> None:
    """Others of the group use a part of the quota, and may stop using it."""
    write(tmp_path, quota="150000")
    share = QuotaShare(CpuQuota(tmp_path))
    first = share.cores
    stopped = []
    for count in range(1, 6):
        write(tmp_path, quota="150000", throttled=1000 * count)
        stopped.append(share.look())
    fewer = share.cores
    for _ in range(100):
        share.look()

    assert stopped == [1_000_000] * 5
    assert first is not None
    assert fewer is not None
    assert 0.7 < fewer < first < 1.5
    assert share.cores == first
