"""What Hookline and its Ray driver process tell each other, as frames in pipes."""

from enum import StrEnum

import msgspec

from hookline.config import EngineConfig
from hookline_cluster.ranks.rank_messages import RankEnlistment


class Kind(StrEnum):
    """What the actors of a driver are."""

    ENGINE = "engine"
    RANK = "rank"


class Open(msgspec.Struct, frozen=True, tag=True):
    """Connects to the cluster and reserves a place for each actor; sent first.

    Attributes:
        address: Address of the cluster; None starts one on this machine.
        kind: Engines of a server, or ranks of an engine.
        indices: Indices of the engines or ranks.
        cpus: CPUs of each.
        deadline_seconds: Time that each may take to start.
    """

    address: str | None
    kind: Kind
    indices: tuple[int, ...]
    cpus: int
    deadline_seconds: float


class Start(msgspec.Struct, frozen=True, tag=True):
    """Starts an engine's actor.

    Attributes:
        launch: Number of this start, which tells it from an earlier one.
        config: The other machine's configuration of the engine.
        secret: The secret that it shares with the head node.
    """

    launch: int
    config: EngineConfig
    secret: bytes


class StartRank(msgspec.Struct, frozen=True, tag=True):
    """Starts a rank's actor.

    Attributes:
        enlisted: What the rank's process is told, without its node's address.
    """

    enlisted: RankEnlistment


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Ends an engine's actor.

    Attributes:
        engine_index: Index of the engine.
        gives_back: Whether its place is no longer needed.
    """

    engine_index: int
    gives_back: bool = False


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The driver is connected.

    Attributes:
        address: Address of this machine in the cluster.
    """

    address: str


class NotOpened(msgspec.Struct, frozen=True, tag=True):
    """The driver could not connect to the cluster, or start one."""

    reason: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """An actor has ended, or was not started in time.

    Attributes:
        index: Index of the engine or rank.
        launch: Number of its start.
        reason: Why, in one clause.
    """

    index: int
    launch: int
    reason: str


ToDriver = Open | Start | StartRank | Stop
FromDriver = Opened | NotOpened | Ended
