"""Which proxy a request goes through, by the standard environment variables."""

import ipaddress
import os
from collections.abc import Iterator, Mapping

from hookline_processes.addresses import (
    AddressError,
    HostPort,
    is_loopback,
    read_url,
)

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Returns the URL of the proxy that a request goes through; None for no proxy.

    `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` count, also in lower case,
    which prevails. This machine's loopback is always reached directly. `NO_PROXY` has
    hosts, domains with all below them, addresses, networks such as `10.0.0.0/8`, each
    with or without a port, and `*` for all.

    Args:
        url: Where the request goes.
        environment: The variables; None for those of this process.

    Raises:
        AddressError: The proxy is not a URL of HTTP or HTTPS.
    """
    given = os.environ if environment is None else environment
    parts = read_url(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    host = host.rstrip(".")
    if is_loopback(host):
        return None
    proxy = _variable(given, f"{parts.scheme}_proxy") or _variable(given, "all_proxy")
    if not proxy or any(_covers(each, host, port) for each in _excepted(given)):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        return read_url(proxy).geturl()
    except AddressError as error:  # the message would show its password
        scheme = proxy.partition("://")[0]
        raise AddressError(
            f"the proxy of the environment for {parts.scheme} is not a URL such as "
            f"http://HOST:PORT, but one of {scheme}"
        ) from error


def _variable(environment: Mapping[str, str], name: str) -> str:
    if name == "http_proxy" and "REQUEST_METHOD" in environment:
        # In a CGI program HTTP_PROXY is a header of the client.
        return environment.get(name, "").strip()
    return (environment.get(name) or environment.get(name.upper(), "")).strip()


def _excepted(environment: Mapping[str, str]) -> Iterator[str]:
    for entry in _variable(environment, "no_proxy").replace(",", " ").split():
        yield entry.lower()


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `NO_PROXY` is about this host and port."""
    if entry == "*":
        return True
    name = entry
    if not _is_network(entry):
        try:
            with_port = HostPort.read(entry)
        except AddressError:
            pass  # it has none
        else:
            name = with_port.host
            if port != with_port.port:
                return False
    name = name.strip("[]").rstrip(".")
    if _is_network(name):
        return _is_in(host, name)
    domain = name.removeprefix("*").removeprefix(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_in(host: str, network: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name, which is not resolved for that
        return False
    return address in ipaddress.ip_network(network, strict=False)
