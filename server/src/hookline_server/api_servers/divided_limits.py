"""Limits of the whole server that each API server gets a part of."""

import math
from dataclasses import replace

from hookline.config import EngineConfig
from hookline_server.settings import ServerSettings


def engine_share(config: EngineConfig, servers: int) -> EngineConfig:
    """Returns the configuration of one of several servers.

    A bound of waiting prompt tokens is divided: each server holds its own prompts. That
    of open requests is not: engines report how many all servers have.
    """
    tokens = config.scheduler.max_num_queued_tokens
    if tokens is None:
        return config
    part = math.ceil(tokens / servers)
    return replace(
        config, scheduler=replace(config.scheduler, max_num_queued_tokens=part)
    )


def server_share(settings: ServerSettings) -> ServerSettings:
    """Returns the settings of one of several servers: a bound of connections divides.

    Each accepts only while no other has fewer connections.
    """
    most = settings.max_connections
    if most is None:
        return settings
    part = math.ceil(most / settings.api_server_count)
    return replace(settings, max_connections=part)
