"""One engine of another machine, as the head node knows it."""

from dataclasses import replace
from enum import Enum

from hookline_cluster.machines.link_messages import JOINING_KEY, Join
from hookline_metrics.front_end_parts import EngineLink, LinkStats, ProcessStats
from hookline_process_engine.transport import Party, Role
from hookline_processes.usage import RoleUsage

_MOST_FORMER_HOSTS = 8


class Presence(Enum):
    """Whether a process is the engine, and whether it has loaded its model."""

    ABSENT = "absent"
    STARTING = "starting"
    READY = "ready"


class RemoteEngine:
    """An engine of another machine, which one process after another may be.

    Attributes:
        party: The engine.
        presence: Whether a process is the engine.
        key: The secret of its messages, or of the last one's.
        absence: Why no process is the engine, in one clause.
        dropped: Messages that the process has dropped.
        link: Its connection in numbers.
    """

    def __init__(self, engine_index: int) -> None:
        self.party = Party(Role.ENGINE, engine_index)
        self.presence = Presence.ABSENT
        self.key = JOINING_KEY
        self.absence = "it has not joined yet"
        self.dropped = 0
        self.link = EngineLink(engine_index=engine_index)
        self._occupant = ""
        self._used_before: dict[str, float] = {}

    @property
    def index(self) -> int:
        return self.party.index

    @property
    def occupancy(self) -> str | None:
        """Which process is the engine, in one clause; None if none is."""
        if self.presence is Presence.ABSENT:
            return None
        return f"engine {self.index} runs {self._occupant} already"

    def assign(self, join: Join, key: bytes) -> None:
        """Makes a process that has asked for it the engine."""
        self.presence = Presence.STARTING
        self.key = key
        self._occupant = f"on {join.host} (process {join.pid})"
        hosts = [*self.link.former_hosts, self.link.host]
        former = [each for each in hosts if each not in ("", join.host)]
        self.link = replace(
            self.link,
            host=join.host,
            former_hosts=tuple(former[-_MOST_FORMER_HOSTS:]),
            joined=self.link.joined + 1,
        )

    def ready(self) -> None:
        self.presence = Presence.READY
        self.link = replace(self.link, is_up=True)

    def answered(
        self, round_trip_seconds: float, processes: tuple[RoleUsage, ...] | None = None
    ) -> None:
        self.link = replace(self.link, round_trip_seconds=round_trip_seconds)
        if processes is not None:
            used = self._used_before
            summed = [
                replace(each, cpu_seconds=each.cpu_seconds + used.get(each.role, 0.0))
                for each in processes
            ]
            self.link = replace(self.link, processes=tuple(summed))

    def leave(self, reason: str, *, is_lost: bool) -> None:
        """Notes that the process is the engine no longer."""
        self.presence = Presence.ABSENT
        self.absence = f"{reason} ({self._occupant})"
        for each in self.link.processes:
            self._used_before[each.role] = each.cpu_seconds
        self.link = replace(
            self.link,
            is_up=False,
            round_trip_seconds=None,
            lost=self.link.lost + int(is_lost),
            processes=tuple(
                RoleUsage(role=role, engine=str(self.index), cpu_seconds=seconds)
                for role, seconds in self._used_before.items()
            ),
        )


def processes_of(links: LinkStats) -> ProcessStats:
    """Returns what the processes of engines on other machines take."""
    roles = tuple(each for link in links.engines for each in link.processes)
    return ProcessStats(roles=roles, are_elsewhere=True)
