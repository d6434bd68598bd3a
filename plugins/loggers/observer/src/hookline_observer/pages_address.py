"""Where an observer process serves the loggers' pages."""

from dataclasses import dataclass
from pathlib import Path

from hookline.pages import PageRoute
from hookline_observer.link import ObserverLink


def pages_socket(folder: Path) -> str:
    """Returns the path of the UNIX socket of the pages."""
    return str(folder / "pages.sock")


@dataclass(frozen=True, slots=True)
class ObserverPages:
    """The pages of an observer process.

    Attributes:
        socket: Path of the UNIX socket on which they are served.
        routes: The pages, in the order in which they were registered.
        paths: The paths as loggers have registered them.
    """

    socket: str
    routes: tuple[PageRoute, ...]
    paths: tuple[str, ...]
    _link: ObserverLink

    @property
    def obstacle(self) -> str | None:
        """Why the process does not answer, as far as that is known; else None."""
        return self._link.silence

    def obstacle_of(self, route: PageRoute) -> str | None:
        """Why a page cannot be served: the process is silent, or lacks its logger."""
        if (silence := self.obstacle) is not None or route in self._link.routes:
            return silence
        return "its logger is left out, because it may have ended the observer process"
