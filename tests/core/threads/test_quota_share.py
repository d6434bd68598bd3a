"""The part of a CPU quota that a process may use, found by trial."""

from pathlib import Path

from hookline_host.cpu_quota import CpuQuota
from hookline_kernels.runtime.threads.quota_share import QuotaShare

from .conftest import write


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


def test_the_consequence_of_one_excess_counts_once(tmp_path: Path) -> None:
    """The group may be stopped a second time before fewer threads have an effect."""
    write(tmp_path, quota="150000")
    share = QuotaShare(CpuQuota(tmp_path))
    found = []
    for throttled in (1000, 2000, 3000):
        write(tmp_path, quota="150000", throttled=throttled)
        share.look()
        found.append(share.cores)

    once, again, thrice = found
    assert once == again
    assert once is not None
    assert thrice is not None
    assert thrice < once


def test_engines_of_one_group_divide_its_quota(tmp_path: Path) -> None:
    """Each begins with an equal part."""
    write(tmp_path, quota="400000")
    alone, one_of_two = (
        QuotaShare(CpuQuota(tmp_path), count).cores for count in (1, 2)
    )

    assert alone is not None
    assert one_of_two == alone / 2
