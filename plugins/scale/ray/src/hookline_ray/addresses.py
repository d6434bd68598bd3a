"""Which Ray cluster is meant."""

import os

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_cluster.config.cluster import ClusterConfig

_VARIABLE = "RAY_ADDRESS"


def given_address(config: EngineConfig) -> str | None:
    """Returns the address that an option or the environment names; None without."""
    machines = ClusterConfig.of(config).machines
    return machines.ray_address or os.environ.get(_VARIABLE) or None


def cluster_address(config: EngineConfig) -> str | None:
    """Returns the address of the cluster; None if one is to be started here.

    Raises:
        ConfigError: It is an address of Ray's client.
    """
    address = given_address(config)
    if address is not None and "://" in address:
        raise ConfigError(
            "ray-address",
            f"{address} is an address of Ray's client: run the server on a node of the "
            "cluster, and name its host and port, or auto",
        )
    return address
