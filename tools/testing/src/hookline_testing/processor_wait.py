"""How long processes have waited for a processor: neighbours' time, not their own."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_NANOSECONDS = 1e9


def processor_wait_seconds(pids: Sequence[int]) -> float:
    """Returns how long the processes' main threads were runnable but did not run.

    0 for processes that have ended, and where Linux does not count this.
    """
    return sum(_wait_seconds(Path(f"/proc/{pid}/task/{pid}")) for pid in pids)


def thread_wait_seconds(pid: int) -> Mapping[str, float]:
    """Returns how long each thread of a process was runnable but did not run.

    Empty for a process that has ended.
    """
    with suppress(OSError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        return {each.name: _wait_seconds(each) for each in threads}
    return {}


def _wait_seconds(thread: Path) -> float:
    try:
        fields = (thread / "schedstat").read_text("ascii").split()
    except OSError:
        return 0.0
    return int(fields[1]) / _NANOSECONDS
