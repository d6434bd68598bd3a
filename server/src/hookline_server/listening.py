"""Listening sockets, which are bound before the engine starts."""

import ipaddress
import os
import socket
from dataclasses import dataclass

from hookline_metrics.front_end_parts import ServerAddress
from hookline_processes.addresses import url_of
from hookline_server.cli.errors import CommandFailedError

BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of a server.

    Attributes:
        api: Socket of the API.
        pages: Socket of the loggers' pages; None if the API's serves them.
    """

    api: socket.socket
    pages: socket.socket | None = None

    @property
    def all(self) -> tuple[socket.socket, ...]:
        return (self.api,) if self.pages is None else (self.api, self.pages)

    def close(self) -> None:
        """Closes the sockets."""
        for each in self.all:
            each.close()


class ListenError(CommandFailedError):
    """The server cannot listen on an address.

    Attributes:
        host: The host.
        port: The port.
    """

    def __init__(self, host: str, port: int, error: OSError) -> None:
        what = os.strerror(error.errno) if error.errno else str(error)
        if isinstance(error, socket.gaierror):
            what = error.strerror or str(error)
        super().__init__(f"cannot listen on {host} port {port}: {what}")
        self.host = host
        self.port = port


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; raises `ListenError` on failure."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _bound(family, address)
    except UnicodeError as error:  # what no resolver is asked
        raise ListenError(host, port, OSError("it is not a host")) from error
    except OSError as error:
        raise ListenError(host, port, error) from error


def _bound(
    family: int,
    address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
) -> socket.socket:
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Allows ports in TIME_WAIT, but none with another listener.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        # Immediately, because two sockets can be bound to a port until one listens.
        taken.listen(BACKLOG)
        taken.setblocking(False)
    except OSError:
        taken.close()
        raise
    return taken


def bound_port(bound: socket.socket) -> int:
    """Returns the port of a bound socket."""
    port: int = bound.getsockname()[1]
    return port


def server_address(bound: socket.socket) -> ServerAddress:
    """Returns the address of a bound socket as observers know it."""
    host, port = bound.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return ServerAddress(host=host, port=port)


def url(bound: socket.socket) -> str:
    """Returns the URL of a bound socket."""
    return url_of(*bound.getsockname()[:2])
