"""Starts the engine of a command, and lets its loggers have the log."""

import asyncio
from importlib import import_module
from typing import cast

from hookline.config import EngineConfig
from hookline_server.engine import ServingEngine
from hookline_server.logs.set_up import ServerLog
from hookline_server.serving import StartEngine


def engine_starter(config: EngineConfig, log: ServerLog) -> StartEngine:
    """Returns what starts the engine, once there is an event loop."""

    async def start() -> ServingEngine:
        # In a thread, so that the server answers while the imports run.
        module = await asyncio.to_thread(import_module, "hookline_server.engine_start")
        engine = cast("ServingEngine", await module.start_engine(config))
        engine.report(log.stats)
        log.feed(engine.records_logged if engine.needs_records else None)
        return engine

    return start
