"""Keeps web pages off a server that asks for no key.

Whoever opens a page lets it send requests to all that this browser reaches, also on
loopback. A page says where it comes from in `Origin` or `Sec-Fetch-Site`, and one whose
own name was made to mean this machine (DNS rebinding) says so in `Host`. Programs send
no origin, and are let through.
"""

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable

from aiohttp import hdrs, web

from hookline_server.api_error import ApiError
from hookline_server.auth.route_scopes import ADMINISTRATION
from hookline_server.cors import ANY, AllowedPages
from hookline_server.errors import Handler
from hookline_server.handlers.common import MAX_SHOWN

SITE, _MODE, _DEST = "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"
_FOREIGN = frozenset({"cross-site", "same-site"})
_SAFE = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
_MOST_USUAL = 64
"""Values of `Host` that are remembered as known."""

_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::\d*)?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class BrowserGuard:
    """Decides which requests without a key may come from a page, or name this host.

    Attributes:
        usual: Values of `Host` that are known; programs with them need no check.
    """

    def __init__(self, hosts: Collection[str], pages: AllowedPages) -> None:
        """Takes the addresses on which the server listens, and what pages may do.

        Without any, it listens on a file, which no page reaches but by a proxy.
        """
        self._origins = frozenset(pages.allowed_origins)
        own = {socket.gethostname().lower(), *(host.lower() for host in hosts)}
        self._names = own | {name.lower() for name in pages.allowed_hosts}
        self._is_strict = bool(pages.allowed_hosts) or (
            bool(hosts) and all(map(is_loopback, hosts))
        )
        self.usual: set[str] = set()

    def check(self, request: web.BaseRequest) -> None:
        """Raises `ApiError` 403 for what a page of another site may have sent.

        Of what changes the server for everybody, names are checked wherever the server
        listens, and `*` allows no origin.

        Args:
            request: A request that needs no key.
        """
        headers = request.headers
        is_page = hdrs.ORIGIN in headers or SITE in headers
        is_administration = request.path in ADMINISTRATION
        if self._is_strict or is_page or is_administration:
            self._check_host(headers.getall(hdrs.HOST, []))
        if hdrs.ORIGIN in headers:
            self._check_origins(
                headers.getall(hdrs.ORIGIN),
                headers.get(hdrs.HOST, ""),
                accepts_any=not is_administration,
            )
        elif headers.get(SITE, "").lower() in _FOREIGN and not _is_visit(request):
            raise _foreign("another site")

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        """Checks every request; for an application that knows no keys."""
        self.check(request)
        return await handler(request)

    def _check_host(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            if host in self.usual:
                continue
            if not self._is_known(_name(host)):
                raise ApiError(
                    403,
                    f"this server does not answer to the name {host[:MAX_SHOWN]!r} "
                    "without an API key; --allowed-hosts adds names",
                    code="host_not_allowed",
                )
            if len(self.usual) < _MOST_USUAL:
                self.usual.add(host)

    def _is_known(self, name: str) -> bool:
        """Whether a name is this server's; numeric addresses cannot be rebound."""
        if not name or is_loopback_name(name) or _is_numeric(name):
            return True
        _, _, parent = name.partition(".")
        return not self._names.isdisjoint((ANY, name, f"{ANY}.{parent}"))

    def _check_origins(
        self, origins: Iterable[str], host: str, *, accepts_any: bool
    ) -> None:
        for origin in origins:
            is_allowed = origin in self._origins or (
                accepts_any and ANY in self._origins
            )
            if not is_allowed and not _is_own(origin, host):
                raise _foreign(repr(origin[:MAX_SHOWN]))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return is_loopback_name(host)
    addresses = [ipaddress.ip_address(str(each[4][0]).split("%")[0]) for each in found]
    return all(each.is_loopback for each in addresses)


def is_loopback_name(name: str) -> bool:
    """Whether a name always means this machine (RFC 6761)."""
    return name == "localhost" or name.endswith(".localhost")


def _name(host: str) -> str:
    """Returns the name or the address of a `Host`, without its port."""
    if (bracketed := _BRACKETED.fullmatch(host)) is not None:
        return bracketed[1].lower()
    name, _, port = host.partition(":")
    return name.rstrip(".").lower() if not port or port.isdigit() else host


def _is_numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return True


def _is_own(origin: str, host: str) -> bool:
    """Whether a page was loaded from the server that it calls."""
    scheme, _, rest = origin.lower().partition("://")
    port = _DEFAULT_PORTS.get(scheme)
    return port is not None and _with_port(rest, port) == _with_port(host.lower(), port)


def _with_port(host: str, port: str) -> str:
    return host if host.rpartition(":")[2].isdigit() else f"{host}:{port}"


def _is_visit(request: web.BaseRequest) -> bool:
    """Whether somebody follows a link to this server, which reads a page of it."""
    headers = request.headers
    return (
        request.method in _SAFE
        and headers.get(_MODE) == "navigate"
        and headers.get(_DEST) == "document"
    )


def _foreign(origin: str) -> ApiError:
    return ApiError(
        403,
        f"pages of {origin} may not use this server without an API key; "
        "--allowed-origins allows them",
        code="origin_not_allowed",
    )


BROWSER_GUARD: web.AppKey[BrowserGuard] = web.AppKey(
    "hookline_browser_guard", BrowserGuard
)
