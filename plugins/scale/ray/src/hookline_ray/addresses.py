"""Which Ray cluster is meant."""

import os

from hookline.config import MachinesConfig
from hookline.exceptions import ConfigError

_VARIABLE = "RAY_ADDRESS"


def cluster_address(machines: MachinesConfig) -> str | None:
    """Returns the address of the cluster; None if one is to be started here.

    Raises:
        ConfigError: It is an address of Ray's client.
    """
    address = machines.ray_address or os.environ.get(_VARIABLE) or None
    if address is not None and "://" in address:
        raise ConfigError(
            "ray-address",
            f"{address} is an address of Ray's client: run the server on a node of the "
            "cluster, and name its host and port, or auto",
        )
    return address
