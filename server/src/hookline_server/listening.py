"""Listening sockets, which are bound before the engine starts."""

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from hookline_metrics.front_end_parts import ServerAddress
from hookline_processes.addresses import url_of
from hookline_server.cli.errors import CommandFailedError
from hookline_server.tls.certificates import Tls, tls_of
from hookline_server.tls.settings import TlsSettings

BACKLOG = 1024
UNIX = "+unix:"
"""What stands between a scheme and the path of a socket's file."""

_ATTEMPTS = 8
"""How often a free port is looked for that is free on several addresses."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The sockets on which one application listens.

    Attributes:
        sockets: One for each address; never empty.
        tls: How their connections are encrypted; None if they are not.
    """

    sockets: tuple[socket.socket, ...]
    tls: Tls | None = None

    @property
    def url(self) -> str:
        """The URL of the first address."""
        return self.urls[0]

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all addresses."""
        scheme = "http" if self.tls is None else "https"
        return tuple(url(each, scheme) for each in self.sockets)

    def copied(self) -> "Bound":
        """Returns copies of the sockets, which are closed apart from them."""
        return Bound(tuple(each.dup() for each in self.sockets), self.tls)

    def close(self) -> None:
        """Closes the sockets."""
        for each in self.sockets:
            each.close()


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of a server.

    Attributes:
        api: Those of the API.
        pages: Those of the loggers' pages; None if the API's serve them.
    """

    api: Bound
    pages: Bound | None = None

    @property
    def all(self) -> tuple[socket.socket, ...]:
        return tuple(each for bound in self.bounds for each in bound.sockets)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return (self.api,) if self.pages is None else (self.api, self.pages)

    def close(self) -> None:
        """Closes the sockets."""
        for each in self.bounds:
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
    (first, *others) = listen_on((host,), port, only_first=True)
    assert not others
    return first


def bound_on(host: str, port: int, tls: TlsSettings) -> Bound:
    """Returns a socket that speaks TLS if the settings want it, and warns of its files.

    Raises:
        ConfigError: A certificate cannot be used.
        ListenError: The address cannot be.
    """
    found = tls_of(tls)
    bound = Bound((listen(host, port),), found)
    if found is not None:
        found.certificates.warn()
    return bound


def listen_on(
    hosts: Sequence[str], port: int, *, only_first: bool = False
) -> tuple[socket.socket, ...]:
    """Returns listening sockets for all addresses of some hosts, on the same port.

    Args:
        hosts: Names and addresses. `::` is every address, those of IPv4 too, unless
            these have a socket of their own.
        port: The port; 0 for one that is free on all of them.
        only_first: Whether a name's first address is enough.

    Raises:
        ListenError: It is impossible on one of them.
    """
    addresses = _addresses(hosts, port, only_first=only_first)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _all_bound(addresses, port)
        except ListenError as error:
            is_taken = getattr(error.__cause__, "errno", None) == errno.EADDRINUSE
            if port or not is_taken or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


_Address = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


def _addresses(
    hosts: Sequence[str], port: int, *, only_first: bool
) -> dict[_Address, str]:
    """Returns the hosts by their addresses, each with the family of its socket."""
    found: dict[_Address, str] = {}
    for host in hosts:
        try:
            infos = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except UnicodeError as error:  # what no resolver is asked
            raise ListenError(host, port, OSError("it is not a host")) from error
        except OSError as error:
            raise ListenError(host, port, error) from error
        for family, _, _, _, address in infos[:1] if only_first else infos:
            found.setdefault((family, address), host)
    return found


def _all_bound(addresses: dict[_Address, str], port: int) -> tuple[socket.socket, ...]:
    has_ipv4 = any(family == socket.AF_INET for family, _ in addresses)
    taken: list[socket.socket] = []
    served: set[str] = set()
    failures: dict[str, OSError] = {}
    try:
        for (family, address), host in addresses.items():
            try:
                bound = _bound(family, _at(address, port), is_dual=not has_ipv4)
            except OSError as error:
                if error.errno not in _NO_FAMILY:
                    raise ListenError(host, port, error) from error
                failures[host] = error
                continue
            taken.append(bound)
            served.add(host)
            port = bound_port(bound)
        _check_all_served(failures, served, port)
    except ListenError:
        for each in taken:
            each.close()
        raise
    return tuple(taken)


_NO_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of an address of a family that this machine does not use, such as IPv6.

A name that has others, too, is served on those."""


def _check_all_served(
    failures: dict[str, OSError], served: set[str], port: int
) -> None:
    for host, error in failures.items():
        if host not in served:
            raise ListenError(host, port, error) from error


def _at(address: tuple[object, ...], port: int) -> tuple[object, ...]:
    return (address[0], port, *address[2:])


def _bound(family: int, address: tuple[object, ...], *, is_dual: bool) -> socket.socket:
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Allows ports in TIME_WAIT, but none with another listener.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
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
    if bound.family == socket.AF_UNIX:
        return ServerAddress(host=str(bound.getsockname()), port=0)
    host, port = bound.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return ServerAddress(host=host, port=port)


def url(bound: socket.socket, scheme: str = "http") -> str:
    """Returns the URL of a bound socket; `http+unix:PATH` of one with a file."""
    if bound.family == socket.AF_UNIX:
        return f"{scheme}{UNIX}{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return url_of(host, port, scheme)
