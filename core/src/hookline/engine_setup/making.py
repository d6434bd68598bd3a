"""Makes the parts of a scheduler that an engine's configuration asks for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hookline.clock import Clock
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.extension import SchedulerExtensions, SchedulerSide
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.engine.scheduler.scheduler import SchedulerParts
from hookline.engine_setup.cache_events import CacheEventLog
from hookline.engine_setup.residency import MeasuredBlockPool
from hookline.exceptions import ConfigError
from hookline.frozen import EMPTY
from hookline.step import ModelShape

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig


def make_scheduler_parts(
    config: "EngineConfig",
    shape: ModelShape,
    clock: Clock,
    extensions: Mapping[str, SchedulerSide] = EMPTY,
    gates: Sequence[ReadinessGate] = (),
) -> SchedulerParts:
    """Makes the KV cache, and resolves what to call of extensions.

    Args:
        config: Configuration of the engine.
        shape: The model's shape.
        clock: Time source.
        extensions: Scheduler's sides of extensions, by their names.
        gates: Conditions for the admission of requests, besides those of extensions.

    Raises:
        ConfigError: Block pool or token budget are too small for one request.
    """
    check_capacity(config, shape)
    num_blocks, share = shape.num_kv_blocks, config.cache.residency_sample
    cache = KVCacheManager(
        config.cache,
        num_blocks,
        clock,
        events=CacheEventLog(config.cache.block_size) if config.follows_cache else None,
        pool=MeasuredBlockPool(num_blocks, share=share, clock=clock)
        if share > 0
        else None,
    )
    return SchedulerParts(cache, SchedulerExtensions(extensions, gates))


def check_capacity(config: "EngineConfig", shape: ModelShape) -> None:
    """Raises `ConfigError` if a request of the maximum length could never finish."""
    pool_tokens = shape.num_kv_blocks * config.cache.block_size
    if pool_tokens < shape.max_model_len:
        raise ConfigError(
            "num-kv-blocks",
            f"the KV cache's {shape.num_kv_blocks} blocks hold {pool_tokens} tokens, "
            f"but one request may have {shape.max_model_len}: give the KV cache more "
            f"memory or lower max-model-len",
        )
    budget = config.scheduler.tokens_per_step
    if not config.scheduler.enable_chunked_prefill and budget < shape.max_model_len:
        raise ConfigError(
            "max-num-batched-tokens",
            f"without chunked prefill a step must hold a whole prompt: {budget} is "
            f"less than max-model-len ({shape.max_model_len})",
        )
