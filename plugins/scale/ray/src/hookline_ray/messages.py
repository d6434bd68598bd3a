"""What the front end and the Ray driver process tell each other, as frames in pipes."""

import msgspec

from hookline.config import EngineConfig


class Open(msgspec.Struct, frozen=True, tag=True):
    """Connects to the cluster and reserves a place for each engine; sent first.

    Attributes:
        address: Address of the cluster; None starts one on this machine.
        engines: Indices of the engines.
        cpus: CPUs of each.
        deadline_seconds: Time that each may take to start.
    """

    address: str | None
    engines: tuple[int, ...]
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
    """An actor has ended, or was not started in time."""

    engine_index: int
    launch: int
    reason: str


ToDriver = Open | Start | Stop
ToFrontEnd = Opened | NotOpened | Ended
