"""What a process and its descendants take of their machine, by the role of each.

A supervised process writes its role into its name, which `ps` and `top` show. So roles
need neither messages nor files, and are known of descendants, too.
"""

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

_OPTION = "hookline_role"
_PREFIX = "hl:"
_LARGEST_NAME = 15
"""Length to which Linux cuts the name of a process."""
_ENGINE = "engine-"
_SERVER = "api-"
_PARENT = "parent"
_OTHER = "other"
"""Role of descendants that are not supervised."""
_NAMED_SECONDS = 5.0
"""Age at which a supervised process has its name, however busy the machine is."""


def as_option(role: str) -> tuple[str, str]:
    """Returns options of the interpreter that tell a new process its role."""
    return "-X", f"{_OPTION}={role}"


def take_role() -> None:
    """Writes the role of this process into its name."""
    role = sys._xoptions.get(_OPTION)  # noqa: SLF001 - as is documented
    if isinstance(role, str):
        name = f"{_PREFIX}{role}"[:_LARGEST_NAME]
        with suppress(OSError):  # a system without such names
            Path("/proc/self/comm").write_text(name, "ascii", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleUsage:
    """What all processes of one role take.

    Attributes:
        role: The role, such as `engine-0`, `rank-1`, `api-0` or `text`.
        engine: Index of the engine that they belong to; empty if to none.
        processes: Number of processes.
        resident_bytes: Their memory in use; what they share counts for each.
        cpu_seconds: Their processor time, with that of processes that have ended.
        open_fds: Number of their open descriptors.
        threads: Number of their threads.
        started_at: When the latest one started, in seconds since the epoch; 0 if there
            is none.
    """

    role: str
    engine: str = ""
    processes: int = 0
    resident_bytes: int = 0
    cpu_seconds: float = 0.0
    open_fds: int = 0
    threads: int = 0
    started_at: float = 0.0


_Key = tuple[str, str]
"""Role and engine."""


@dataclass(slots=True)
class _Member:
    """A process of the tree, as it was read last."""

    name: str = ""
    engine: str = ""
    ticks: int = 0
    started: int = 0
    threads: int = 0
    pages: int = 0

    def call(self, name: str) -> None:
        self.name = name
        role = name.removeprefix(_PREFIX)
        if self.is_named and role.startswith(_ENGINE):
            self.engine = role.removeprefix(_ENGINE)

    @property
    def is_named(self) -> bool:
        return self.name.startswith(_PREFIX)

    @property
    def key(self) -> _Key:
        role = self.name.removeprefix(_PREFIX) if self.is_named else _OTHER
        return role, self.engine


class ProcessTree:
    """A process with its descendants; for one thread.

    Of all other processes of the machine each is looked at once.
    """

    def __init__(self, root: int, role: str = _PARENT) -> None:
        """Follows the process `root`, whose role this is, and its descendants."""
        self._root = root
        self._members = {root: _Member()}
        self._members[root].call(_PREFIX + role)
        self._strangers: set[int] = set()
        self._ended: dict[_Key, int] = {}
        self._tick = 1 / os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def read(self) -> tuple[RoleUsage, ...]:
        """Reads all processes; roles of which none is left have zeros."""
        self._look_for_members()
        named_by = time.time() - self._booted_at - _NAMED_SECONDS
        found: dict[_Key, RoleUsage] = {}
        for pid, member in self._members.items():
            if member.is_named or member.started * self._tick < named_by:
                known = found.get(member.key) or RoleUsage(role="")
                found[member.key] = self._added(known, pid, member)
        for key in found:
            self._ended.setdefault(key, 0)
        usages = {key: found.get(key) or RoleUsage(role="") for key in self._ended}
        return tuple(
            replace(
                usage,
                role=self._title(role),
                engine=engine,
                cpu_seconds=usage.cpu_seconds + self._ended[role, engine] * self._tick,
            )
            for (role, engine), usage in sorted(usages.items())
        )

    def _added(self, known: RoleUsage, pid: int, member: _Member) -> RoleUsage:
        started_at = self._booted_at + member.started * self._tick
        return replace(
            known,
            processes=known.processes + 1,
            resident_bytes=known.resident_bytes + member.pages * self._page,
            cpu_seconds=known.cpu_seconds + member.ticks * self._tick,
            open_fds=known.open_fds + _open_descriptors(pid),
            threads=known.threads + member.threads,
            started_at=max(known.started_at, started_at),
        )

    def _title(self, role: str) -> str:
        """Calls the root what it is: without API servers it serves itself."""
        has_servers = any(each.startswith(_SERVER) for each, _ in self._ended)
        return f"{_SERVER}0" if role == _PARENT and not has_servers else role

    def _look_for_members(self) -> None:
        there = {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208
        self._strangers &= there
        for pid in list(self._members):
            if not self._renew(pid):
                gone = self._members.pop(pid)
                self._ended[gone.key] = self._ended.get(gone.key, 0) + gone.ticks
        new = {
            pid: fields
            for pid in there - self._strangers - self._members.keys()
            if (fields := _stat_of(pid)) is not None
        }
        while ours := [pid for pid in new if new[pid].parent in self._members]:
            for pid in ours:
                self._add(pid, new.pop(pid))
        self._strangers |= new.keys()

    def _add(self, pid: int, stat: "_Stat") -> None:
        member = _Member(engine=self._members[stat.parent].engine)
        self._members[pid] = member
        self._take(pid, member, stat)

    def _renew(self, pid: int) -> bool:
        """Reads a member again; False if it has ended."""
        member, stat = self._members[pid], _stat_of(pid)
        if stat is None or (member.started and stat.started != member.started):
            return False
        self._take(pid, member, stat)
        return True

    def _take(self, pid: int, member: _Member, stat: "_Stat") -> None:
        if pid != self._root:
            member.call(stat.name)
        member.ticks, member.started = stat.ticks, stat.started
        member.threads, member.pages = stat.threads, stat.pages


@dataclass(frozen=True, slots=True)
class _Stat:
    """What `/proc/PID/stat` says."""

    name: str
    parent: int
    ticks: int
    threads: int
    started: int
    pages: int


def _stat_of(pid: int) -> _Stat | None:
    """Returns None for a process that has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - quick
            head, _, rest = file.read().rpartition(b") ")
    except OSError:
        return None
    fields = rest.split()
    if not fields or fields[0] in {b"Z", b"X"}:
        return None
    return _Stat(
        name=head.partition(b"(")[2].decode("ascii", "replace"),
        parent=int(fields[1]),
        ticks=int(fields[11]) + int(fields[12]),
        threads=int(fields[17]),
        started=int(fields[19]),
        pages=int(fields[21]),
    )


def _open_descriptors(pid: int) -> int:
    """Returns the number of a process's descriptors; 0 if it has ended."""
    folder = f"/proc/{pid}/fd"
    try:
        # From Linux 6.2 on, the size of the folder.
        return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208
    except OSError:
        return 0
