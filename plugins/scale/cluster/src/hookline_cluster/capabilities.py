"""What clients of several engines can do beyond `EngineClient`."""

from collections.abc import Mapping
from typing import Protocol

from hookline.transport.engine_client import EngineDied
from hookline_cluster.news import EngineVerdict
from hookline_metrics.front_end_parts import LinkStats


class RemoteEngines(Protocol):
    """Knows engines on other machines; for any thread."""

    @property
    def hosts(self) -> Mapping[int, str]:
        """The machine of each engine that is, or was, on another one."""
        ...


class EngineLinks(Protocol):
    """Has connections to other machines; for any thread."""

    @property
    def links(self) -> LinkStats:
        """The state of these connections."""
        ...

    def returns(self, engine_index: int) -> bool:
        """Whether the engine comes back by itself, because another machine runs it."""
        ...


class SecondaryClientNews(Protocol):
    """Tells other clients of its engines what becomes of these; for any thread."""

    def tell_death(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Tells other clients that an engine has ended, and what comes of it."""
        ...

    def tell_verdict(self, verdict: EngineVerdict) -> None:
        """Tells other clients whether an engine works."""
        ...


class ElasticEngines(Protocol):
    """Starts and ends engines of a client that serves; for any thread."""

    def add(self, engine_index: int, num_blocks: int) -> None:
        """Begins to start an engine in the place of one that has ended, or of none.

        `receive` reports `EngineJoined` or `EngineNotJoined`.

        Args:
            engine_index: Its index.
            num_blocks: Number of KV blocks that it gets, as the others have.
        """
        ...

    def remove(self, engine_index: int) -> None:
        """Begins to end an engine, which may be starting, and to forget it.

        `receive` reports `EngineLeft` in the end.
        """
        ...

    def drain_engine(self, engine_index: int) -> None:
        """Has other clients leave an engine once they have nothing open there."""
        ...

    def keep(self, engine_index: int) -> None:
        """Offers an engine to other clients again, after `drain_engine`."""
        ...

    def client_left(self, engine_index: int, client: int, number: int | None) -> None:
        """Takes note that another client has left an engine, or was force-detached.

        Args:
            engine_index: The engine, which tells it.
            client: Index of the client.
            number: Number of the wish that it fulfils; None if it was force-detached.
        """
        ...

    def is_drained(self, engine_index: int) -> bool:
        """Whether no other client has anything open at an engine to be drained."""
        ...


class EngineAttachments(Protocol):
    """A client's stay at engines that another client owns; for any thread."""

    def leave(self, engine_index: int, number: int) -> None:
        """Leaves an engine where this client has nothing open, for the n-th wish."""
        ...

    def come_back(self, engine_index: int) -> None:
        """Begins to attach again to an engine that it has left.

        `receive` reports `EngineJoined`.
        """
        ...
