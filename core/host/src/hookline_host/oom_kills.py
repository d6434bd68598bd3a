"""Tells processes that the kernel killed for lack of memory from those others killed.

The kernel counts its kill in the process's control group before it kills.
"""

import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hookline_host.control_groups import groups_of
from hookline_host.files import read_table

_FILES = {1: "memory.oom_control", 2: "memory.events"}
_KEY = "oom_kill"


class Mark(NamedTuple):
    """Where the counts stood at a time.

    Attributes:
        kills: The kernel's count.
        explained: How many kills had been explained by it.
    """

    kills: int
    explained: int


class OomKills:
    """Counts the kills in this process's control group, or on the machine without one.

    A kill explains the end of one process only: the next one that ends by SIGKILL needs
    a further one.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Finds the count.

        Args:
            root: Folder that contains `proc`.
        """
        files = (
            each.folder / _FILES[each.version] for each in groups_of("memory", root)
        )
        machine = root / "proc/vmstat"
        self._file = next((each for each in files if _KEY in read_table(each)), machine)
        self._lock = threading.Lock()
        self._explained = 0

    def count(self) -> int:
        """Returns the number of kills since the group was made."""
        return read_table(self._file).get(_KEY, 0)

    def mark(self) -> Mark:
        """Returns where the counts stand; to be called before a process starts."""
        with self._lock:
            return Mark(self.count(), self._explained)

    def explains(self, since: Mark) -> bool:
        """Whether a process that was killed since then was killed by the kernel.

        It is to be asked once for each process.
        """
        with self._lock:
            more = self.count() - since.kills
            if more <= self._explained - since.explained:
                return False
            self._explained += 1
            return True


@cache
def oom_kills() -> OomKills:
    """Returns the count of this process's group, which all its children share."""
    return OomKills()
