"""The publisher of KV events while an engine's process is replaced."""

from contextlib import closing

from hookline.clock import SystemClock
from hookline.payloads import REMOVED, EngineFailed, EngineStopped
from hookline_kv_events.config import KVEventsConfig
from hookline_kv_events.logger import EnginePublication, KVEventsLogger
from hookline_kv_events.publisher import Publisher
from hookline_kv_events.wire import ArrayEncoder
from hookline_testing.payloads import make_started


def never(rank: int) -> EnginePublication:
    raise AssertionError(rank)


def test_the_sockets_outlive_a_process() -> None:
    """They stay open for the next one, and end with the engine."""
    config = KVEventsConfig.from_mapping({"endpoint": "tcp://127.0.0.1:*"})
    with closing(Publisher(config, 0)) as publisher:
        encoder = ArrayEncoder(16)
        own = EnginePublication(publisher, SystemClock(), encoder, rank=0)
        logger = KVEventsLogger({0: own}, never)
        failed = EngineFailed(engine_index=0, reason="x", open_requests=0)

        logger.engine_started(make_started())
        logger.engine_failed(
            EngineFailed(engine_index=0, reason="x", open_requests=0, is_final=False)
        )
        lives_on = publisher._thread.is_alive()
        logger.engine_started(make_started())
        logger.engine_failed(failed)

        assert lives_on
        assert not publisher._thread.is_alive()


def test_an_engine_that_joins_gets_an_address() -> None:
    """It is opened when the engine starts, and again after it has left."""
    config = KVEventsConfig.from_mapping({"endpoint": "tcp://127.0.0.1:*"})
    opened: list[Publisher] = []

    def publish(rank: int) -> EnginePublication:
        opened.append(Publisher(config, rank))
        return EnginePublication(opened[-1], SystemClock(), ArrayEncoder(16), rank=rank)

    logger = KVEventsLogger({}, publish)
    for _ in range(2):
        logger.engine_started(make_started())
        logger.engine_stopped(EngineStopped(engine_index=0, reason=REMOVED))

    assert [each._thread.is_alive() for each in opened] == [False, False]
