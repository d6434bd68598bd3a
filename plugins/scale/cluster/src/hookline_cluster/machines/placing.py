"""Starts engines on other machines by a backend, such as Ray."""

import secrets
from dataclasses import replace
from functools import partial
from typing import cast

from hookline.config import (
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import ENGINE_NODES
from hookline_cluster.config import ClusterConfig, MachinesConfig
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.endpoint import endpoint_of
from hookline_cluster.machines.engine_nodes import EngineNodes
from hookline_cluster.machines.link_keys import LinkKeys, read_secret
from hookline_cluster.machines.placed_client import PlacedClient
from hookline_cluster.machines.tcp import TcpHub

_SECRET_BYTES = 32


def place_engines(
    config: EngineConfig, relay: ClientRelay | None = None
) -> PlacedClient:
    """Begins to start the engines that are not on this machine.

    The relay is for their other clients, if they can have any; the client closes it
    once it is made.

    Raises:
        ConfigError: An option does not fit.
        EngineDeadError: The machines cannot be reached.
        RegistryError: The backend is not installed, or broken.
    """
    machines = ClusterConfig.of(config).machines
    open_nodes = hook_of(ENGINE_NODES, machines.backend)
    secret = read_secret(machines.secret_file)
    nodes = cast("EngineNodes", open_nodes(context=config))
    try:
        secret = secret or secrets.token_bytes(_SECRET_BYTES)
        return place_by(config, nodes, secret, relay)
    except BaseException:
        nodes.close()
        raise


def place_by(
    config: EngineConfig,
    nodes: EngineNodes,
    secret: bytes,
    relay: ClientRelay | None = None,
) -> PlacedClient:
    """Begins to start engines by nodes, which the client closes if it is made.

    Raises:
        ConfigError: The address or the port does not fit.
    """
    given = ClusterConfig.of(config).machines
    machines = replace(given, address=given.address or nodes.address)
    endpoint = endpoint_of(machines, has_secret=True)
    if given.rpc_port is None:
        endpoint = replace(endpoint, port=0)
    hub = TcpHub(endpoint, LinkKeys.derive(secret), relay)
    try:
        there = _of_machine(config, replace(machines, rpc_port=hub.port))
        start = partial(_start, nodes, there, secret)
        return PlacedClient(config, hub, nodes, start, relay)
    except BaseException:
        hub.close()
        raise


def _start(
    nodes: EngineNodes, there: EngineConfig, secret: bytes, engine_index: int
) -> None:
    nodes.start(there.of_engine(engine_index), secret)


def _of_machine(head: EngineConfig, machines: MachinesConfig) -> EngineConfig:
    """Returns another machine's configuration; it gets the rest from the head node."""
    there = ClusterConfig(
        data_parallel_size=ClusterConfig.of(head).num_engines,
        machines=MachinesConfig(
            size_local=1,
            address=machines.address,
            rpc_port=machines.rpc_port,
            join_timeout=machines.join_timeout,
        ),
    )
    return EngineConfig(
        model=ModelConfig(model=head.model.model, tokenizer=head.model.tokenizer),
        executor=ExecutorConfig(threads=head.executor.threads),
        sections={ClusterConfig.key: there},
    )
