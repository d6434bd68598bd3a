"""Starts the engine of a command, and lets its loggers have the log."""

import asyncio
from importlib import import_module
from typing import cast

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline_description.locating import located
from hookline_server.api_servers.fleet import Engines
from hookline_server.api_servers.parent import StartOwner
from hookline_server.engine import ServingEngine
from hookline_server.engine_sharing import require_cluster
from hookline_server.logs.record_feed import Deliver
from hookline_server.logs.set_up import ServerLog
from hookline_server.serving import StartEngine


def engine_starter(config: EngineConfig, log: ServerLog) -> StartEngine:
    """Returns what starts the engine, once there is an event loop."""

    async def start() -> ServingEngine:
        # In a thread, so that the server answers meanwhile; so do the imports.
        found = await asyncio.to_thread(located, config)
        module = await asyncio.to_thread(import_module, "hookline_server.engine_start")
        engine = cast("ServingEngine", await module.start_engine(found))
        engine.report(log.stats)
        log.feed(_wanted_records(engine))
        return engine

    return start


def _wanted_records(engine: ServingEngine) -> Deliver | None:
    """Returns what takes records of the log; None if no logger wants them."""
    observers = engine.observers
    return observers.records_logged if observers.listens("records_logged") else None


def owner_starter(config: EngineConfig, log: ServerLog) -> StartOwner:
    """Returns what starts the engines for several API servers.

    Raises:
        ConfigError: The engines cannot be shared.
    """
    option = "api-server-count"
    if config.in_process:
        raise ConfigError(option, "more than 1 requires engine processes")
    if config.engine != "native":
        raise ConfigError(option, f"more than 1 is not possible with {config.engine}")
    require_cluster(option)

    async def start() -> tuple[ServingEngine, Engines]:
        found = await asyncio.to_thread(located, config)
        module = await asyncio.to_thread(import_module, "hookline_server.engine_start")
        engine, shared, observers = await module.start_owner(found)
        engine.report(log.stats)
        log.feed(_wanted_records(engine))
        engines = Engines(
            config=found,
            invite=shared.attach_info,
            force_detach=shared.force_detach,
            overrun=lambda: frozenset(shared.overrun_clients),
            observer=module.observer_endpoint(observers),
        )
        return engine, engines

    return start
