"""Kills for lack of memory are told from others by the kernel's count."""

import os
import signal
import subprocess
import sys
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
    ("more", "end"),
    [(0, "killed by SIGKILL"), (1, "killed by SIGKILL: memory ran out")],
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


REAL = """
import os, sys
from pathlib import Path
from hookline_processes.supervised import Supervised

Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
early, hog = Supervised("idle", name="it"), Supervised("hog", name="hog")
hog.close(60.0)
print(hog.end_reason)
early.kill()
early.close(60.0)
print(early.end_reason)
"""
HOG, IDLE = "b'-' * (512 << 20)", "import time; time.sleep(600)"


def test_the_kernels_own_kill_is_told_from_ours(
    group_of_128_mib: Path, tmp_path: Path
) -> None:
    """
    Of two processes of a real group, one takes too much, and we kill the other.
    """
    (tmp_path / "hog.py").write_text(HOG)
    (tmp_path / "idle.py").write_text(IDLE)

    done = subprocess.run(
        [sys.executable, "-c", REAL, str(group_of_128_mib)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "its process was killed by SIGKILL: memory ran out",
        "its process was killed by SIGKILL",
    ]
