"""Both ends of what lies between an executor and its ranks, whatever that is."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from hookline.config import EngineConfig
from hookline.exceptions import RankError

if TYPE_CHECKING:  # it needs torch, which a rank imports once it is told to
    from hookline_ranks.parallel_groups import ParallelGroups


class MessageWriter(Protocol):
    """Where messages are written; for one thread."""

    def write(self, message: bytes, check: Callable[[], None]) -> None:
        """Writes a message for each reader.

        Args:
            message: Any bytes.
            check: Called now and then while there is no room; may raise an error.
        """
        ...


class MessageReader(Protocol):
    """Where messages are read, in their order; for one thread."""

    def read(self, timeout_seconds: float | None) -> bytes | None:
        """Waits for the next message.

        Args:
            timeout_seconds: How long at most; None waits without an end.

        Returns:
            The message; None if none came in time, once a rank has ended, and now and
            then for no reason.
        """
        ...


class CountedTokens(Protocol):
    """What the experts of each rank have computed, as the executor sees it."""

    def take(self) -> tuple[int, ...]:
        """Returns by how much each rank's number has grown since the last call."""
        ...


class Ranks(Protocol):
    """All ranks of an engine, as its executor sees them; for one thread.

    Attributes:
        pids: Process ids, by rank, each on the machine of its process.
        hosts: Names of these machines, by rank; empty if it is this one.
        orders: Writes to all ranks.
        answers: Reads what each rank answers, by rank.
        expert_counts: What each rank's experts have computed; None if ranks have parts
            of all of them.
    """

    @property
    def pids(self) -> tuple[int, ...]: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    @property
    def orders(self) -> MessageWriter: ...
    @property
    def answers(self) -> Sequence[MessageReader]: ...
    @property
    def expert_counts(self) -> CountedTokens | None: ...

    def find_failure(self) -> RankError | None:
        """Returns the error about the rank that has ended first, if one has.

        Returns at once. Once there is one, all ranks end.
        """
        ...

    def close(self) -> None:
        """Ends the ranks; those that have been told to end get a moment for it."""
        ...


StartRanks = Callable[[EngineConfig], Ranks]
"""Starts the processes of an engine's ranks; they wait for orders.

May raise `ConfigError` and `RankError`.
"""


class RankEnd(Protocol):
    """What one rank has of the executor and of the other ranks; for one thread.

    Attributes:
        rank: Index of the rank.
        is_output: Whether this rank samples and reports.
        ranks_here: Number of the engine's ranks that divide this machine.
        orders: Reads what the executor orders.
        answers: Writes to the executor.
    """

    rank: int
    is_output: bool
    ranks_here: int

    @property
    def orders(self) -> MessageReader: ...
    @property
    def answers(self) -> MessageWriter: ...

    def join_groups(self, config: EngineConfig) -> "ParallelGroups":
        """Meets the other ranks; called once, by all of them.

        Args:
            config: The rank's configuration.

        Raises:
            RankError: Another rank does not come.
        """
        ...

    def end_step(self) -> None:
        """Tells the executor what experts have computed, where it does not see it."""
        ...
