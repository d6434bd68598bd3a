"""How long processes have waited for a processor: neighbours' time, not their own."""

from collections.abc import Sequence
from pathlib import Path

_NANOSECONDS = 1e9


def processor_wait_seconds(pids: Sequence[int]) -> float:
    """Returns how long the processes' main threads were runnable but did not run.

    0 for processes that have ended, and where Linux does not count this.
    """
    return sum(map(_wait_seconds, pids))


def _wait_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text("ascii").split()
    except OSError:
        return 0.0
    return int(fields[1]) / _NANOSECONDS
