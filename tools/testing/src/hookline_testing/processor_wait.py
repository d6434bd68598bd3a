"""How long processes have waited for a processor: neighbours' time, not their own."""

import os
from collections.abc import Mapping, Sequence

_NANOSECONDS = 1e9


def processor_wait_seconds(pids: Sequence[int]) -> float:
    """Returns how long the processes' main threads were runnable but did not run.

    0 for processes that have ended, and where Linux does not count this.
    """
    return sum(_wait_seconds(f"/proc/{pid}/task/{pid}") for pid in pids)


def thread_wait_seconds(pid: int) -> Mapping[str, float]:
    """Returns how long each thread of a process was runnable but did not run.

    Empty for a process that has ended.
    """
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208 - read for most waits of all tests
    except OSError:
        return {}
    return {each: _wait_seconds(f"{folder}/{each}") for each in threads}


def _wait_seconds(thread: str) -> float:
    try:
        with open(f"{thread}/schedstat", "rb", buffering=0) as file:  # noqa: PTH123
            return int(file.read().split()[1]) / _NANOSECONDS
    except OSError:
        return 0.0
