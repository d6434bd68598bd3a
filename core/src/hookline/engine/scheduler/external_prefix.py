"""What admission asks an extension that brings keys and values of waiting requests.

They come from elsewhere, such as another engine or a slower memory, and go into blocks
that follow the request's prefix in the cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.request import Request


@dataclass(frozen=True, slots=True)
class PrefixOffer:
    """An offer of tokens that follow a request's local prefix.

    Attributes:
        num_tokens: Number of tokens, in full blocks.
        is_async: Whether the request waits outside the batch for them.
    """

    num_tokens: int = 0
    is_async: bool = False


NO_OFFER = PrefixOffer()


class FetchStart(Enum):
    """Outcome of the attempt to fetch what was offered."""

    NO_ROOM = auto()
    """Too few blocks are free; nothing was changed."""
    REFUSED = auto()
    """It cannot be fetched; the request will be computed without it."""
    BEGUN = auto()
    """It is being fetched."""


@dataclass(frozen=True, slots=True)
class FetchedPrefix:
    """What an admitted request has got.

    Attributes:
        num_tokens: How many of its computed tokens were brought.
        num_transferred: How many of these another instance computed for it.
        waited: Begin and end of its wait for them since it was last admitted, ns; None
            if it did not wait.
    """

    num_tokens: int = 0
    num_transferred: int = 0
    waited: tuple[int, int] | None = None


NOTHING_BROUGHT = FetchedPrefix()


class ExternalPrefix(Protocol):
    """Brings keys and values of waiting requests.

    All methods run on the engine's thread, must not block and raise nothing.
    """

    @property
    def gate(self) -> ReadinessGate:
        """Where a request waits for an asynchronous fetch."""

    def offer(self, request: Request, prefix: Sequence[int]) -> PrefixOffer:
        """Returns how many tokens it can bring after the blocks of a prefix.

        At least one token must be left to compute. Changes nothing: a request that does
        not fit is asked about again.
        """

    def fetch(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> FetchStart:
        """Reserves blocks for an asynchronous offer and begins to fill them.

        They belong to the fetch until it ends. Then the request is released, and finds
        them in the prefix cache. If `BEGUN`, the request is held at `gate`.
        """

    def fetch_in_step(
        self, request: Request, prefix: Sequence[int], offer: PrefixOffer, now: int
    ) -> bool:
        """Has the step that is being planned fill blocks of a request, which has them.

        Returns:
            False if that is refused; the request's blocks are then freed again.
        """

    def admitted(self, request: Request) -> FetchedPrefix:
        """A request joins the batch, for the first time or again."""

    def reclaim(self, num_blocks: int, now: int) -> None:
        """A waiting request lacks this many blocks; some that it holds may be freed."""
