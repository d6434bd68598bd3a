"""Stat logger `kv_events`: publishes changes of the prefix cache over ZMQ."""

from hookline.clock import SystemClock
from hookline.exceptions import ConfigError
from hookline.hookspecs import hookimpl
from hookline.payloads import LoggerContext
from hookline.tells import Tells
from hookline_kv_events.batch_encoder import encoder_of
from hookline_kv_events.config import OPTION, KVEventsSection
from hookline_kv_events.logger import (
    EnginePublication,
    KVEventsLogger,
)
from hookline_kv_events.publisher import Publisher, open_publishers


@hookimpl
def logger_needs() -> tuple[Tells, ...]:
    return Tells.BLOCKS, Tells.EVICTIONS


@hookimpl
def create_stat_logger(context: LoggerContext) -> KVEventsLogger:
    """Raises `ConfigError` if events are not enabled or a socket cannot be bound."""
    config = KVEventsSection.of(context.config).publication
    if config is None or not config.enable_kv_cache_events:
        raise ConfigError(OPTION, "the logger kv_events needs enable_kv_cache_events")
    ranks = context.config.engine_indices
    encoder = encoder_of(config.encoding, context.config.cache.block_size)
    publishers = open_publishers(config, ranks)

    def publication(publisher: Publisher, rank: int) -> EnginePublication:
        return EnginePublication(publisher, SystemClock(), encoder, rank=rank)

    return KVEventsLogger(
        {
            rank: publication(publisher, rank)
            for rank, publisher in zip(ranks, publishers, strict=True)
        },
        lambda rank: publication(Publisher(config, rank), rank),
    )
