"""Where the head node listens for engines of other machines."""

from dataclasses import dataclass

from hookline.exceptions import ConfigError
from hookline_cluster.config.machines import LOOPBACK, RPC_PORT, MachinesConfig
from hookline_cluster.machines.link_keys import SECRET_OPTION
from hookline_processes.addresses import AddressError, HostPort, numeric, read_host


@dataclass(frozen=True, slots=True)
class Endpoint(HostPort):
    """A resolved address and a port.

    Attributes:
        host: A numeric address.
        port: 1 to 65535, or 0 for a free one.
    """

    def __str__(self) -> str:
        return f"tcp://{HostPort(self.host, self.port)}"


def endpoint_of(config: MachinesConfig, *, has_secret: bool) -> Endpoint:
    """Resolves the configured address of the head node.

    Raises:
        ConfigError: The address is unknown, or other machines reach it and there is no
            secret that encrypts and authenticates.
    """
    address, port = config.address or LOOPBACK, config.rpc_port
    try:
        host = numeric(read_host(address))
    except AddressError as error:
        raise ConfigError("data-parallel-address", str(error)) from error
    found = Endpoint(host, RPC_PORT if port is None else port)
    if not has_secret and not found.is_loopback:
        raise ConfigError(
            SECRET_OPTION,
            f"is required, because other machines reach {found}: whoever connects "
            "without it could read prompts and answer in place of an engine",
        )
    return found


def head_endpoint(config: MachinesConfig, *, has_secret: bool) -> Endpoint:
    """Resolves where the head node of another machine listens; see `endpoint_of`.

    Raises:
        ConfigError: Likewise, and if its port is not said.
    """
    if config.rpc_port == 0:
        raise ConfigError(
            "data-parallel-rpc-port",
            "must be the port on which the head node listens, which its log says",
        )
    return endpoint_of(config, has_secret=has_secret)
