"""Connects a front end to several engines, on this machine and on others."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.transport.engine_client import EngineClient
from hookline.transport.native import connect_in_process
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.config.cluster import (
    ClusterConfig,
    check_autoscale,
    local_engines,
)
from hookline_cluster.config.expert_spread import check_processes
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.endpoint import endpoint_of
from hookline_cluster.machines.link_keys import LinkKeys, shared_secret
from hookline_cluster.machines.multi_node_client import MultiNodeClient
from hookline_cluster.machines.placing import place_engines
from hookline_cluster.machines.remote_client import RemoteClient
from hookline_cluster.machines.tcp import TcpHub
from hookline_cluster.scaling.elastic_client import ElasticClient

_log = logging.getLogger(__name__)

SharedClient = OwnerClient | RemoteClient | MultiNodeClient
"""Clients that own engines to which other processes can attach."""


def connect(config: EngineConfig) -> EngineClient:
    """Starts the engines, in this or their own processes, and waits for them.

    Those of other machines are not started, only waited for.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    check_autoscale(config)
    if ClusterConfig.of(config).remote_indices:
        return _connect_machines(config, local_engines(config), None)
    if config.in_process:
        check_processes(config)
        return connect_in_process(config)
    return ElasticClient(*local_engines(config))


def connect_shared(config: EngineConfig) -> SharedClient:
    """Starts engines, or waits for them, to which other processes can attach.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    check_autoscale(config)
    configs = local_engines(config)
    if not ClusterConfig.of(config).remote_indices:
        return ElasticClient(*configs)
    relay = ClientRelay()
    try:
        return _connect_machines(config, configs, relay)
    except BaseException:
        relay.close()
        raise


def _connect_machines(
    config: EngineConfig, local: list[EngineConfig], relay: ClientRelay | None
) -> RemoteClient | MultiNodeClient:
    if config.in_process:
        raise ConfigError(
            "in-process", "cannot be combined with engines on other machines"
        )
    is_placed = ClusterConfig.of(config).machines.is_placed
    remote = place_engines(config, relay) if is_placed else _listen(config, relay)
    try:
        return _joined(remote, local)
    except BaseException:
        remote.close()
        raise


def _listen(config: EngineConfig, relay: ClientRelay | None) -> RemoteClient:
    machines = ClusterConfig.of(config).machines
    endpoint = endpoint_of(machines, has_secret=machines.secret_file is not None)
    keys = LinkKeys.derive(shared_secret(machines.secret_file))
    hub = TcpHub(endpoint, keys, relay)
    _log.info("engines of other machines join at %s", hub.address)
    return RemoteClient(config, hub, relay)


def _joined(
    remote: RemoteClient, local: list[EngineConfig]
) -> RemoteClient | MultiNodeClient:
    """Waits for other machines while the engines of this one start."""
    if not local:
        remote.wait()
        return remote
    is_started = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = pool.submit(remote.wait, is_started)
        try:
            started = OwnerClient(*local)
        except BaseException:
            remote.stop_waiting()
            raise
        is_started.set()
    if (error := waiting.exception()) is not None:
        started.close()
        raise error
    return MultiNodeClient(started, remote)
