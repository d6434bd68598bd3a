"""Hosts, ports and URLs as people write them: one parser for every option."""

import ipaddress
import re
import socket
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import SplitResult, urlsplit

LARGEST_PORT = 65535

_NAME = re.compile(r"[\w.-]{1,253}|\*")
"""Names, also those that only a resolver can judge, and every address of a machine."""
_ZONE = re.compile(r"[A-Za-z0-9._~-]{1,64}")
_EVERYWHERE = ("*", "::", "0.0.0.0")  # noqa: S104 - to recognize them
_WEB = ("http", "https")


class AddressError(ValueError):
    """A text is no address; the message says why."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host and a port.

    Attributes:
        host: A name or a numeric address, without brackets.
        port: 1 to 65535, or 0 for a free one.
    """

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Reads `HOST:PORT`, where an IPv6 address stands in brackets.

        Raises:
            AddressError: It is something else.
        """
        host, colon, port = text.rpartition(":")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise AddressError(
                f"{text!r} is ambiguous: an IPv6 address and its port are written "
                "[ADDRESS]:PORT, such as [::1]:8000"
            )
        if not (colon and host):
            raise AddressError(f"{text!r} is not HOST:PORT")
        return cls(read_host(host), read_port(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    def plus(self, offset: int) -> Self:
        """Returns the address of a further party: its port is higher by `offset`.

        A free port (0) stays one.

        Raises:
            AddressError: There is no such port.
        """
        if self.port == 0:
            return self
        port = self.port + offset
        if port > LARGEST_PORT:
            raise AddressError(
                f"port {self.port} leaves no room: {offset} more would be {port}, and "
                f"{LARGEST_PORT} is the largest port"
            )
        return replace(self, port=port)

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


def read_host(text: str) -> str:
    """Returns a host as sockets take it: a name, or an address without brackets.

    Raises:
        AddressError: It is no host, or one with a port.
    """
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in inside or inside != text:
        address, percent, zone = inside.replace("%25", "%", 1).partition("%")
        is_ipv6 = ":" in address and _is_numeric(address)
        if is_ipv6 and (not percent or _ZONE.fullmatch(zone)):
            return f"{address}{percent}{zone}"
    elif _NAME.fullmatch(text):
        return text
    raise AddressError(
        f"{text!r} is not a host: write a name or an address without a port, such as "
        "localhost, 127.0.0.1 or ::1"
    )


def read_port(text: str) -> int:
    """Returns a port; raises `AddressError` if it is none."""
    if text.isascii() and text.isdecimal() and int(text) <= LARGEST_PORT:
        return int(text)
    raise AddressError(f"{text!r} is not a port, 0 to {LARGEST_PORT}")


def read_url(text: str, schemes: tuple[str, ...] = _WEB) -> SplitResult:
    """Returns the parts of a URL that names a host, and a valid port if any.

    Raises:
        AddressError: It is something else.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        is_legal = text.isprintable() and " " not in text and port != 0
        if parts.scheme in schemes and host and is_legal:
            read_host(f"[{host}]" if ":" in host else host)
            return parts
    except ValueError:
        pass
    example = f"{schemes[0]}://HOST:PORT"
    hint = ""
    if text.partition("://")[2].count(":") > 1 and "[" not in text:
        hint = f"; an IPv6 address stands in brackets, {schemes[0]}://[::1]:PORT"
    raise AddressError(f"{text!r} is not a URL such as {example}{hint}")


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """Returns the URL of a host and a port, with brackets where it needs them."""
    return f"{scheme}://{bracketed(host).replace('%', '%25')}:{port}"


def bracketed(host: str) -> str:
    """Returns a host as it stands before a colon and a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def is_loopback(host: str) -> bool:
    """Whether a host reaches this machine only; it may stand in brackets."""
    bare = host.strip("[]").lower().rstrip(".")
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return bare == "localhost"  # other names are whatever a resolver says
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def is_everywhere(host: str) -> bool:
    """Whether to listen on a host is to listen on every address of the machine."""
    return host.strip("[]") in _EVERYWHERE


def numeric(host: str) -> str:
    """Returns the address of a name: IPv4 first, as in most clusters.

    Raises:
        AddressError: It is unknown.
    """
    if _is_numeric(host):  # a resolver would lose the zone
        return host
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressError(f"{host!r} is unknown: {error}") from error
    first = min(infos, key=lambda each: each[0] != socket.AF_INET)
    return str(first[4][0])


def _is_numeric(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
