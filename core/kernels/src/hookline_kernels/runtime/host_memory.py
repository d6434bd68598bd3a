"""Main memory that is free for this process."""

from pathlib import Path


def available_memory() -> int | None:
    """Returns the bytes that the machine or the control group has free.

    None if the system does not tell.
    """
    free = _meminfo("MemAvailable")
    if free is None:
        return None
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        most, taken = _number(limit), _number(used)
        if most is not None and taken is not None:
            free = min(free, max(0, most - taken))
    return free


def _meminfo(name: str) -> int | None:
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None
