"""Measures the resident memory of a process and its descendants."""

import re
from pathlib import Path

_SHARE = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def memory_mib(pid: int) -> float:
    """Returns the resident memory in MiB; shared pages count once."""
    return sum(_share_kib(each) for each in _family(pid)) / 1024


def _family(pid: int) -> list[int]:
    """Returns the ids of the process and all its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(task).split():
            found += _family(int(child))
    return found


def _share_kib(pid: int) -> int:
    match = _SHARE.search(_read(Path(f"/proc/{pid}/smaps_rollup")))
    return int(match[1]) if match else 0


def _read(path: Path) -> str:
    """Reads a file of a process that may have ended meanwhile."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
