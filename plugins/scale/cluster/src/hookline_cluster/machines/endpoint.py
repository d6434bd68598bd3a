"""Where the head node listens for engines of other machines."""

import ipaddress
import socket
from dataclasses import dataclass

from hookline.exceptions import ConfigError
from hookline_cluster.config.machines import LOOPBACK, RPC_PORT, MachinesConfig
from hookline_cluster.machines.link_keys import SECRET_OPTION

_ADDRESS = "data-parallel-address"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A resolved address and a port.

    Attributes:
        host: A numeric address.
        port: 1 to 65535, or 0 for a free one.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def endpoint_of(config: MachinesConfig, *, has_secret: bool) -> Endpoint:
    """Resolves the configured address of the head node.

    Raises:
        ConfigError: The address is unknown, or other machines reach it and there is no
            secret that encrypts and authenticates.
    """
    address, port = config.address or LOOPBACK, config.rpc_port
    found = Endpoint(_resolved(address), RPC_PORT if port is None else port)
    if not has_secret and not found.is_loopback:
        raise ConfigError(
            SECRET_OPTION,
            f"is required, because other machines reach {found}: whoever connects "
            "without it could read prompts and answer in place of an engine",
        )
    return found


def _resolved(address: str) -> str:
    try:
        infos = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(_ADDRESS, f"{address!r} is unknown: {error}") from error
    # IPv4 first, as in most clusters; otherwise the order of the resolver.
    first = min(infos, key=lambda each: each[0] != socket.AF_INET)
    return str(first[4][0])
