"""What a server reports to the loggers through its front end."""

from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import Observing, RemotePages
from hookline.pages import RoutesOf
from hookline.payloads import HttpAnswered, RecordsLogged


class ToldLoggers:
    """Base of a front end; none of its methods waits for a logger, but `flush`."""

    def __init__(self, observers: Observing) -> None:
        """Passes everything on to these loggers."""
        self._observers = observers

    def add_routes(self, routes_of: RoutesOf) -> RemotePages | None:
        """Lets each logger register its pages; returns those of another process."""
        return self._observers.add_routes(routes_of)

    def listens(self, hook: str) -> bool:
        """Whether any logger implements the hook."""
        return self._observers.listens(hook)

    def http_answered(self, answered: HttpAnswered) -> None:
        """Passes HTTP requests that a server has answered to the loggers."""
        self._observers.http_answered(answered)

    def records_logged(self, logged: RecordsLogged) -> None:
        """Passes records of the server's log to the loggers; thread-safe."""
        self._observers.records_logged(logged)

    def front_end_changed(self, parts: tuple[FrontEndPart, ...]) -> None:
        """Passes the parts of this front end that have changed to the loggers."""
        self._observers.front_end_changed(parts)

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until every logger is up to date; False if one is not in time."""
        return self._observers.flush(timeout_seconds)
