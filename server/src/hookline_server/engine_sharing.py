"""What a server asks of the distribution that connects several engines and servers."""

from collections.abc import Collection, Sequence
from threading import Event
from typing import Protocol, cast

import msgspec

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import CLUSTER
from hookline.transport.engine_client import EngineClient
from hookline_registry import UnknownPluginError

_NAME = "cluster"
_DISTRIBUTION = "hookline-cluster"


class AttachInfo(msgspec.Struct, frozen=True):
    """What a process needs to attach to the engines of another one.

    It is secret, so it goes through a private channel.

    Attributes:
        client_index: Index of the process among all clients of the engines.
        folders: Folders of the owner's sockets.
        details: What only the distribution understands.
    """

    client_index: int
    folders: list[str]
    details: bytes


class SharedEngines(Protocol):
    """The capability of a client to whose engines other processes can attach."""

    @property
    def overrun_clients(self) -> Collection[int]:
        """Clients that get no more outputs, because they did not take them."""
        ...

    def attach_info(self, client_index: int) -> AttachInfo:
        """Lets another process attach to the engines, as this client."""
        ...

    def force_detach(self, client_index: int) -> None:
        """Has the engines abort the requests of a client that has ended."""
        ...


class AttachedEngines(Protocol):
    """The capability of a client whose engines belong to another process."""

    @property
    def are_engines_gone(self) -> bool:
        """Whether all engines have ended for good, as their owner says."""
        ...


class HeadlessNode(Protocol):
    """The engines of a machine whose front end is on another one.

    Attributes:
        address: Address of the head node, where that front end is.
        indices: The indices of the engines.
    """

    address: str
    indices: Sequence[int]

    def run(self, stopping: Event, drain_seconds: float) -> bool:
        """Serves until the head node says goodbye, all have failed, or `stopping`.

        Args:
            stopping: Set when the engines are to finish their requests and to end.
            drain_seconds: Maximum time for that.

        Returns:
            Whether no engine has failed.
        """
        ...


class Cluster(Protocol):
    """What `create_cluster` of the plugin `cluster` returns."""

    def connect_shared(self, config: EngineConfig) -> EngineClient:
        """Starts engines, or waits for them, and returns a client with `SharedEngines`.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            EngineDeadError: An engine ended before it was ready, or did not come.
        """
        ...

    def attach(self, info: AttachInfo) -> EngineClient:
        """Attaches to the engines of another process, and waits for their answers.

        Returns:
            A client with the capability `AttachedEngines`.

        Raises:
            EngineDeadError: An engine does not answer.
        """
        ...

    def headless_node(self, config: EngineConfig) -> HeadlessNode:
        """Prepares this machine's engines for a front end on another one.

        Raises:
            ConfigError: The head node's address or the secret does not fit.
        """
        ...


def require_cluster(option: str) -> Cluster:
    """Returns what is installed.

    Args:
        option: The option that needs it, without leading dashes.

    Raises:
        ConfigError: It is not installed.
        RegistryError: Two distributions claim it, or it cannot be imported.
    """
    try:
        return cast("Cluster", hook_of(CLUSTER, _NAME)())
    except UnknownPluginError:
        raise ConfigError(
            option,
            f"requires the distribution {_DISTRIBUTION}, which is not installed or not "
            "allowed",
        ) from None
