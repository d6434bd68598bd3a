"""Starts the engine; imported late, because the engine's imports are slow."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from hookline.config import EngineConfig
from hookline.frontend.observation import Observers
from hookline.frontend.observing import ObserverAddress, Observing
from hookline.frontend.starting import observe
from hookline.transport.engine_client import EngineClient
from hookline_server.api_servers.messages import ObserverEndpoint
from hookline_server.engine import ServingEngine
from hookline_server.engine_sharing import SharedEngines, require_cluster
from hookline_server.texts.engine import TextEngine

OBSERVER_PAGES = "hookline_server.observer_pages:ObserverPages"
"""What serves the loggers' pages in an observer process."""


class Owner(NamedTuple):
    """The engines, and the loggers, of several API servers.

    Attributes:
        engine: A front end that no client uses.
        shared: Lets other processes attach to the engines.
        observers: The loggers, in an observer process if there are any.
    """

    engine: ServingEngine
    shared: SharedEngines
    observers: Observing


async def start_engine(config: EngineConfig) -> ServingEngine:
    """Starts an engine; raises `ConfigError`, `ModelLoadError` or `RegistryError`."""
    engine = await TextEngine.start(
        config, observe=partial(observe, pages=OBSERVER_PAGES)
    )
    await engine.start_texts()
    return engine


async def start_owner(config: EngineConfig) -> Owner:
    """Starts engines and loggers for other processes.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        RegistryError: A plugin is unknown or broken.
    """
    cluster = require_cluster("api-server-count")
    clients: list[EngineClient] = []
    made: list[Observing] = []

    def connect(config: EngineConfig) -> EngineClient:
        clients.append(cluster.connect_shared(config))
        return clients[0]

    def observe_for_all(config: EngineConfig, recorder: object | None) -> Observing:
        made.append(observe(config, recorder, pages=OBSERVER_PAGES))
        return made[0]

    config = _with_shared_loggers(config)
    engine = await TextEngine.start(config, observe=observe_for_all, connect=connect)
    shared = clients[0].capability(SharedEngines)
    assert shared is not None, "it was connected for that"
    return Owner(engine, shared, made[0])


async def attach_to_engines(
    config: EngineConfig, client: EngineClient, observer: ObserverAddress | None
) -> ServingEngine:
    """Starts a front end of engines and loggers that another process owns.

    Raises:
        ObserverSilentError: The observer process does not answer.
    """

    def observe_there(config: EngineConfig, recorder: object | None) -> Observing:
        if observer is None:
            return Observers(config, recorder)
        return observe(config, address=observer)

    engine = await TextEngine.start(
        config, observe=observe_there, connect=lambda _: client
    )
    await engine.start_texts()
    return engine


def _with_shared_loggers(config: EngineConfig) -> EngineConfig:
    """Has the loggers run in an observer process, if there are any."""
    has_any = bool(config.observers.stat_loggers) or config.follows_cache
    observers = replace(config.observers, observer_process=has_any)
    return replace(config, observers=observers)


def observer_endpoint(observers: Observing) -> ObserverEndpoint | None:
    """Returns how API servers reach the observer process; None without loggers."""
    if (address := observers.address) is None:
        return None
    return ObserverEndpoint(str(address.folder), address.key)
