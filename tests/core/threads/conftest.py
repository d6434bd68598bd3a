"""A control group in files."""

from pathlib import Path

MOUNT = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def write(root: Path, *, quota: str, throttled: int = 0) -> None:
    group = root / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True, exist_ok=True)
    (root / "proc" / "self").mkdir(parents=True, exist_ok=True)
    (root / "proc" / "self" / "cgroup").write_text("0::/\n")
    (root / "proc" / "self" / "mountinfo").write_text(MOUNT)
    (group / "cpu.max").write_text(f"{quota} 100000\n")
    (group / "cpu.stat").write_text(f"throttled_usec {throttled}\n")
