"""Makes the scheduler of an engine core, with its KV cache."""

from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.kv_cache import KVCacheManager
from hookline.kv_cache.cache_events import CacheEventLog
from hookline.scheduler import Scheduler
from hookline.scheduler.extension import SchedulerExtensions
from hookline.step.model_shape import ModelShape

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig


def make_scheduler(
    config: "EngineConfig",
    shape: ModelShape,
    clock: Clock,
    extensions: SchedulerExtensions,
) -> Scheduler:
    """Returns a scheduler without requests.

    In a pipeline, batches in flight divide the requests; otherwise a step takes all.
    """
    has_stages = config.parallel.pipeline_parallel_size > 1
    events = CacheEventLog(config.cache.block_size) if config.follows_cache else None
    cache = KVCacheManager(config.cache, shape.num_kv_blocks, clock, events)
    return Scheduler(
        config.scheduler,
        cache,
        max_model_len=shape.max_model_len,
        extensions=extensions,
        num_batches=config.num_steps_ahead + 1 if has_stages else 1,
    )
