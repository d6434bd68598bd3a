"""Main memory that is left for this process, by its control groups and the machine.

A group's limit counts the pages of files that its processes have read, which the kernel
drops when it needs the memory: they are no use of it. Memory that could be swapped
out is not counted as free.
"""

import os
from pathlib import Path
from typing import NamedTuple

from hookline_host.control_groups import ControlGroup, groups_of
from hookline_host.files import read_number, read_table, read_text

_UNLIMITED = 1 << 62
"""Version 1 writes the largest multiple of a page below 2 to the power of 63."""


class Memory(NamedTuple):
    """Main memory at a time, in bytes.

    Attributes:
        available: What can still be taken before the tightest limit is reached, or the
            machine has nothing left.
        limit: The limit of the group that leaves the least; None without any limit.
        used: What that group uses that cannot be dropped; None without any limit.
    """

    available: int
    limit: int | None = None
    used: int | None = None


def read_memory(root: Path = Path("/")) -> Memory | None:
    """Reads the memory of this process's control groups and of the machine.

    It costs some system calls for each group and is meant for once in seconds.

    Args:
        root: Folder that contains `proc`.

    Returns:
        The memory; None if the system does not tell.
    """
    machine = _machine_available(root)
    if machine is None:
        return None
    rooms = [each for each in map(_room, groups_of("memory", root)) if each is not None]
    if not rooms:
        return Memory(machine)
    least = min(rooms, key=lambda each: each.available)
    return least._replace(available=min(machine, least.available))


def available_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes that can still be taken; None if the system does not tell."""
    memory = read_memory(root)
    return None if memory is None else memory.available


def total_memory(root: Path = Path("/")) -> int:
    """Returns the bytes that this process could take if nobody else took any."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = map(_limit, groups_of("memory", root))
    return min([machine, *(each for each in limits if each is not None)])


def _room(group: ControlGroup) -> Memory | None:
    """Returns what a group leaves; None without a limit of its own."""
    limit = _limit(group)
    if limit is None:
        return None
    is_first = group.version == 1
    name = "memory.usage_in_bytes" if is_first else "memory.current"
    usage = read_number(group.folder / name)
    if usage is None:  # the limit alone still is one
        return Memory(limit, limit, None)
    used = max(0, usage - _droppable(group))
    return Memory(max(0, limit - used), limit, used)


def _limit(group: ControlGroup) -> int | None:
    """Returns the bytes from which the kernel ends processes, or holds them up."""
    folder = group.folder
    if group.version == 2:
        limits = [read_number(folder / f"memory.{name}") for name in ("max", "high")]
    else:
        # Groups above may not be mounted here; the kernel takes their limits down.
        above = read_table(folder / "memory.stat").get("hierarchical_memory_limit")
        limits = [read_number(folder / "memory.limit_in_bytes"), above]
    return min(
        (each for each in limits if each is not None and each < _UNLIMITED),
        default=None,
    )


def _droppable(group: ControlGroup) -> int:
    """Returns the bytes of files' pages that nobody needs to stay where they are.

    These are all that were not used lately, and of the others those that no process
    has mapped: a file that was written and then read once counts as used lately.
    """
    table = read_table(group.folder / "memory.stat")
    prefix = "total_" if "total_inactive_file" in table else ""
    name = "file_mapped" if group.version == 2 else f"{prefix}mapped_file"
    unmapped = table.get(f"{prefix}active_file", 0) - table.get(name, 0)
    return table.get(f"{prefix}inactive_file", 0) + max(0, unmapped)


def _machine_available(root: Path) -> int | None:
    for line in read_text(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == "MemAvailable":
            return int(value.split()[0]) * 1024
    try:  # without /proc; pages of files do not count as free here
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return None
