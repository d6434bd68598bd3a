"""Finds the processes of ranks by their parents."""

from pathlib import Path

_MODULE = b"hookline_ranks.processes.rank_process"


def rank_pids(engine_pid: int) -> list[int]:
    """Returns the ids of an engine's rank processes that have not ended, by rank."""
    folders = (each for each in Path("/proc").iterdir() if each.name.isdecimal())
    return sorted(int(each.name) for each in folders if _is_rank(each, engine_pid))


def _is_rank(folder: Path, parent: int) -> bool:
    try:
        status = (folder / "stat").read_text("latin-1").rpartition(") ")[2].split()
        command = (folder / "cmdline").read_bytes()
    except OSError:
        return False
    return status[0] != "Z" and int(status[1]) == parent and _MODULE in command
