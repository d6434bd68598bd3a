"""Looks at an engine process from outside: its state, and the stacks of its threads."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

STACKS_SIGNAL = signal.SIGUSR1
"""On it, an engine process writes the stacks of its threads to its file."""

_MOST_BYTES = 64 * 1024
_STOPPED = ("T", "t")
_STATUS = ("State", "Threads", "VmRSS", "VmSwap")


def stacks_file(folder: Path, engine_index: int) -> Path:
    """Returns the file of an engine's stacks in the folder of the sockets."""
    return folder / f"engine-{engine_index}.stacks"


class ProcessInspector:
    """Inspects one process of this user by /proc; for one thread.

    Whatever it reads may be gone at any moment, and then reads as empty.
    """

    def __init__(self, pid: int, stacks: Path, ranks: Sequence[int] = ()) -> None:
        """Inspects a process, and those that compute its steps.

        Args:
            pid: Its process id.
            stacks: The file to which it writes its stacks.
            ranks: Process ids of its ranks.
        """
        self.pid = pid
        self._stacks = stacks
        self._ranks = ranks

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped the process."""
        return _state(Path(f"/proc/{self.pid}")) in _STOPPED

    @property
    def stopped_part(self) -> str:
        """Which process is stopped, in words; empty if none is."""
        if self.is_stopped:
            return "its process"
        for rank, pid in enumerate(self._ranks):
            if _state(Path(f"/proc/{pid}")) in _STOPPED:
                return f"the process of rank {rank}"
        return ""

    @property
    def description(self) -> str:
        """State and memory of the process, and where its threads wait."""
        lines = _read(Path(f"/proc/{self.pid}/status")).splitlines()
        status = [" ".join(line.split()) for line in lines if line.startswith(_STATUS)]
        tasks: list[Path] = []
        with suppress(OSError):
            tasks = sorted(Path(f"/proc/{self.pid}/task").iterdir())
        waits = [f"{_read(each / 'comm').strip()} {_wait(each)}" for each in tasks]
        ranks = [f"rank {rank} {_looks(pid)}" for rank, pid in enumerate(self._ranks)]
        if ranks:
            status.append(", ".join(ranks))
        return f"pid {self.pid}; {'; '.join(status)}; threads: {', '.join(waits)}"

    def ask_for_stacks(self) -> None:
        """Asks the process for its stacks; `take_stacks` returns them a moment later.

        Python code and native code write them alike. A stopped process is not asked: it
        would write them when it goes on, beside threads that run again, and CPython may
        crash of that (https://github.com/python/cpython/issues/116008).
        """
        with suppress(OSError):
            os.truncate(self._file, 0)
            if not self.is_stopped:
                os.kill(self.pid, STACKS_SIGNAL)

    def take_stacks(self) -> str:
        """Returns the stacks that the process has written, oldest thread last."""
        text = _read(self._file)
        with suppress(OSError):
            os.truncate(self._file, 0)
        return text

    @property
    def _file(self) -> Path:
        """The file of the stacks, also if a cleaner has removed its name."""
        if self._stacks.exists():
            return self._stacks
        with suppress(OSError):  # the process ends meanwhile
            for path in Path(f"/proc/{self.pid}/fd").iterdir():
                if str(path.readlink()) == f"{self._stacks} (deleted)":
                    return path
        return self._stacks


def _state(path: Path) -> str:
    """Returns the state of a process or thread by its folder in /proc, one letter."""
    # The name in parentheses may hold anything, so the state is sought behind it.
    return _read(path / "stat").rpartition(") ")[2][:1]


def _looks(pid: int) -> str:
    return f"pid {pid} ({_state(Path(f'/proc/{pid}')) or 'ended'})"


def _wait(path: Path) -> str:
    """Returns the state of a thread, and the kernel's function that it waits in."""
    return f"({_state(path)} {_read(path / 'wchan').strip() or '?'})"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
