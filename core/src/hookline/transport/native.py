"""Hookline's own engine, for the entry point `native` of `hookline.engines`."""

import threading
from concurrent.futures import ThreadPoolExecutor

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.config.expert_spread import check_processes
from hookline.core.building import build_core, build_loop
from hookline.exceptions import ConfigError
from hookline.transport.elastic_client import ElasticClient
from hookline.transport.endpoint import endpoint_of
from hookline.transport.engine_client import EngineClient
from hookline.transport.guest_relay import GuestRelay
from hookline.transport.inproc_client import InprocClient
from hookline.transport.joined_client import JoinedClient
from hookline.transport.link_keys import LinkKeys, read_secret
from hookline.transport.placing import place_engines
from hookline.transport.process_client import ProcessClient
from hookline.transport.remote_client import RemoteClient
from hookline.transport.tcp import TcpHub

SharedClient = ProcessClient | RemoteClient | JoinedClient
"""Clients that own engines to which other processes can attach."""


def connect(config: EngineConfig) -> EngineClient:
    """Starts the engines, in this or their own processes, and waits for them.

    Those of other machines are not started, only waited for.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    configs = config.per_engine()
    if config.remote_indices:
        return _connect_machines(config, configs, None)
    if not config.in_process:
        return ElasticClient(*configs)
    if config.supervision.engine_restart:
        raise ConfigError("engine-restart", "requires an engine process of its own")
    check_processes(config.parallel)
    cores = [build_core(each, SystemClock()) for each in configs]
    return InprocClient(*map(build_loop, configs, cores))


def connect_for_guests(config: EngineConfig) -> SharedClient:
    """Starts engines, or waits for them, to which other processes can attach.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: An engine ended before it was ready, or did not come in time.
    """
    configs = config.per_engine()
    if not config.remote_indices:
        return ElasticClient(*configs)
    relay = GuestRelay()
    try:
        return _connect_machines(config, configs, relay)
    except BaseException:
        relay.close()
        raise


def _connect_machines(
    config: EngineConfig, local: list[EngineConfig], relay: GuestRelay | None
) -> RemoteClient | JoinedClient:
    if config.in_process:
        raise ConfigError(
            "in-process", "cannot be combined with engines on other machines"
        )
    is_placed = config.machines.is_placed
    remote = place_engines(config, relay) if is_placed else _listen(config, relay)
    try:
        return _joined(remote, local)
    except BaseException:
        remote.close()
        raise


def _listen(config: EngineConfig, relay: GuestRelay | None) -> RemoteClient:
    secret = read_secret(config.machines.secret_file)
    keys = None if secret is None else LinkKeys.derive(secret)
    endpoint = endpoint_of(config.machines, has_secret=secret is not None)
    return RemoteClient(config, TcpHub(endpoint, keys, relay), relay)


def _joined(
    remote: RemoteClient, local: list[EngineConfig]
) -> RemoteClient | JoinedClient:
    """Waits for other machines while the engines of this one start."""
    if not local:
        remote.wait()
        return remote
    is_started = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        waiting = pool.submit(remote.wait, is_started)
        try:
            started = ProcessClient(*local)
        except BaseException:
            remote.stop_waiting()
            raise
        is_started.set()
    if (error := waiting.exception()) is not None:
        started.close()
        raise error
    return JoinedClient(started, remote)
