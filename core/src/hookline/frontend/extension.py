"""Where an installed distribution attaches to a front end."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hookline.clock import Clock
from hookline.config.engine import EngineConfig
from hookline.frontend.calls import PendingCalls
from hookline.frontend.client_request import ClientRequest
from hookline.frontend.engine_set import EngineSet, EngineState
from hookline.frontend.engine_watch import Stall
from hookline.frontend.observing import Observing
from hookline.frontend.reporting import ReadPart
from hookline.frontend.router import EngineRouter
from hookline.transport.engine_client import EngineDied, News

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndParts:
    """What an extension gets of its front end, for the front end's thread.

    Attributes:
        engines: The engines, and the state of each.
        calls: Open calls to them.
        observers: The loggers.
        clock: The front end's clock.
        take_stall: Takes a verdict on an engine, by its index; None if it works again.
        end: Ends the requests of an engine that has ended, for a reason.
    """

    engines: EngineSet
    calls: PendingCalls
    observers: Observing
    clock: Clock
    take_stall: Callable[[int, Stall | None], None]
    end: Callable[[EngineState, str], None]


class FrontEndExtension(Protocol):
    """What is added to a front end, resolved once when it starts; for its thread."""

    @property
    def observers(self) -> Observing:
        """The loggers, or what stands before them; always the same."""
        ...

    @property
    def router(self) -> EngineRouter:
        """Chooses engines for requests; always the same."""
        ...

    @property
    def look(self) -> Callable[[], None] | None:
        """To be called after each message; None if nothing is to be done then."""
        ...

    def on_news(self, news: News) -> None:
        """Takes what the front end itself does not understand."""
        ...

    def leaving(
        self, engine: EngineState, death: EngineDied
    ) -> Collection[ClientRequest]:
        """Returns the requests that will move from an engine that has just ended."""
        ...

    def move(self, source: EngineState, requests: Collection[ClientRequest]) -> None:
        """Sends requests of an engine that is marked as ended to other engines."""
        ...

    def returns(self, death: EngineDied) -> bool:
        """Whether an engine that has ended comes back by itself, whenever it may be."""
        ...

    def ended(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Takes note that an engine has ended, and what comes of it."""
        ...

    def judged(self, engine_index: int, stall: Stall | None) -> None:
        """Takes note of a verdict on an engine; None if it works again."""
        ...

    def serve(self, resized: Callable[[int], None]) -> Sequence[ReadPart]:
        """Begins its work on the running event loop of a server; `close` follows.

        Args:
            resized: To be called with one more than the highest index of an engine,
                whenever engines have come or gone.

        Returns:
            What reads its state, once per second, for the loggers.
        """
        ...

    def capability(self, kind: type[T]) -> T | None:
        """Returns what it offers to the server while it serves; None if it does not.

        Args:
            kind: A Protocol, such as `EngineNumber`.
        """
        ...

    def stop(self) -> None:
        """Begins nothing more, because the server shuts down."""
        ...

    async def close(self) -> None:
        """Ends its work on the event loop."""
        ...


Extend = Callable[[FrontEndParts], FrontEndExtension]


class ExtendsFrontEnds(Protocol):
    """What an installed distribution has for every front end."""

    def extend(self, config: EngineConfig, parts: FrontEndParts) -> FrontEndExtension:
        """Returns the extension of a new front end, whose engines are ready."""
        ...
