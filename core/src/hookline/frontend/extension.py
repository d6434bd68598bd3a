"""Where an installed distribution attaches to a front end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hookline.clock import Clock
from hookline.config.engine import EngineConfig
from hookline.frontend.calls import PendingCalls
from hookline.frontend.engine_set import EngineSet
from hookline.frontend.observing import Observing
from hookline.frontend.reporting import ReadPart
from hookline.frontend.request_ending import RequestEnding
from hookline.frontend.router import EngineRouter
from hookline.transport.engine_client import EngineDied, News

T = TypeVar("T")
Post = Callable[[Callable[[], None]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndParts:
    """What an extension gets of its front end, for the front end's thread.

    Attributes:
        engines: The engines, and the state of each.
        calls: Open calls to them.
        observers: The loggers.
        clock: The front end's clock.
    """

    engines: EngineSet
    calls: PendingCalls
    observers: Observing
    clock: Clock


class FrontEndExtension(Protocol):
    """What is added to a front end, resolved once when it starts; for its thread."""

    @property
    def observers(self) -> Observing:
        """The loggers, or what stands before them; always the same."""

    @property
    def router(self) -> EngineRouter:
        """Chooses engines for requests; always the same."""

    @property
    def look(self) -> Callable[[], None] | None:
        """To be called after each message; None if nothing is to be done then."""

    @property
    def ending(self) -> RequestEnding:
        """Ends the requests of engines; always the same."""

    def on_news(self, news: EngineDied | News) -> None:
        """Takes an engine's end, and what the front end itself does not understand."""

    def watch(self, seconds: float) -> None:
        """Looks at the engines several times per second, once `serve` was called.

        Runs in a thread of its own.

        Args:
            seconds: Time since the last look, as far as this process ran.
        """

    def serve(self, resized: Callable[[int], None], post: Post) -> Sequence[ReadPart]:
        """Begins its work on the running event loop of a server; `close` follows.

        Args:
            resized: To be called with one more than the highest index of an engine,
                whenever engines have come or gone.
            post: Has the event loop call something, for other threads.

        Returns:
            What reads its state, once per second, for the loggers.
        """

    def capability(self, kind: type[T]) -> T | None:
        """Returns what it offers to the server while it serves; None if it does not.

        Args:
            kind: A Protocol, such as `EngineNumber`.
        """

    def stop(self) -> None:
        """Begins nothing more, because the server shuts down."""

    async def close(self) -> None:
        """Ends its work on the event loop."""


Extend = Callable[[FrontEndParts], FrontEndExtension]


class ExtendsFrontEnds(Protocol):
    """What an installed distribution has for every front end."""

    def extend(self, config: EngineConfig, parts: FrontEndParts) -> FrontEndExtension:
        """Returns the extension of a new front end, whose engines are ready."""
