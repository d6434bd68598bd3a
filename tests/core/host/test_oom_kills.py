"""Kills for lack of memory are told from others by the kernel's count."""

import signal
from pathlib import Path

import pytest

from hookline_host.oom_kills import OomKills
from hookline_processes import supervised
from hookline_processes.supervised import Supervised
from hookline_testing.file_trees import write_files

MOUNT_2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
MOUNT_1 = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"


def count_in(root: Path, file: str, kills: int, other: str = "low 0\n") -> None:
    write_files(root, {file: f"{other}oom 9\noom_kill {kills}\noom_group_kill 7\n"})


@pytest.mark.parametrize(
    ("own", "mounts", "file"),
    [
        ("0::/a/b\n", MOUNT_2, "sys/fs/cgroup/a/b/memory.events"),
        ("0::/a/b\n", MOUNT_2, "sys/fs/cgroup/a/memory.events"),
        ("4:memory:/a\n0::/\n", MOUNT_1, "sys/fs/cgroup/memory/a/memory.oom_control"),
        ("", "", "proc/vmstat"),
    ],
    ids=["own group", "group above", "version 1", "machine"],
)
def test_a_kill_explains_one_end(
    tmp_path: Path, own: str, mounts: str, file: str
) -> None:
    """
    Ends by SIGKILL are explained as often as the count has risen since their start.
    """
    (tmp_path / "sys/fs/cgroup/a/b").mkdir(parents=True)
    write_files(tmp_path, {"proc/self/cgroup": own, "proc/self/mountinfo": mounts})
    count_in(tmp_path, file, 3)
    kills = OomKills(tmp_path)
    before = kills.mark()

    by_hand = kills.explains(before)
    count_in(tmp_path, file, 5)
    later = kills.mark()

    assert not by_hand
    assert [kills.explains(before) for _ in range(3)] == [True, True, False]
    assert not kills.explains(later)


@pytest.mark.parametrize(
    ("more", "end"), [(0, "killed by SIGKILL"), (1, "killed by SIGKILL: memory ran out")]
)
def test_a_killed_process_says_why_only_if_it_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, end: str
) -> None:
    """
    A process that somebody kills is not said to have run out of memory.
    """
    count_in(tmp_path, "proc/vmstat", 4)
    kills = OomKills(tmp_path)
    monkeypatch.setattr(supervised, "oom_kills", lambda: kills)
    process = Supervised("timeit", name="it")

    process.signal(signal.SIGKILL)
    count_in(tmp_path, "proc/vmstat", 4 + more)
    process.close(60.0)

    said = [process.end_reason, process.end_reason]
    assert said == [f"its process was {end}"] * 2
    assert process.is_out_of_memory is bool(more)
