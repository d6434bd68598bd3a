"""An engine without a model: the real loop, core, scheduler and KV cache.

It is given commands, a clock and an executor, and knows nothing of recordings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from hookline.clock import Clock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.engine.engine_core import EngineCore
from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.extension import SchedulerExtensions, SchedulerSide
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.engine.scheduler.scheduler import SchedulerParts
from hookline.engine.worker.executor import Executor
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.making import check_capacity
from hookline.exceptions import ConfigError
from hookline.frozen import EMPTY
from hookline.step import ModelShape
from hookline_recording.scheduling import Scheduling

C = TypeVar("C", bound=EngineCore)

EXECUTOR = "recorded"
_UNTOUCHED = ("kv_cache_memory", "sibling_blocks")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an engine is made from, besides executor and clock.

    Attributes:
        config: Its configuration.
        shape: Its model.
    """

    config: EngineConfig
    shape: ModelShape

    @classmethod
    def of(
        cls, scheduling: Scheduling, changes: Mapping[str, object] = EMPTY
    ) -> "EngineOptions":
        """Makes the options of a recorded engine.

        Args:
            scheduling: What the recording tells.
            changes: Options of the scheduler or the cache in place of the recorded
                ones, by the names of their fields; `num_kv_blocks` is one of them.

        Raises:
            ConfigError: An option is unknown or does not fit.
        """
        left = dict(changes)
        cache = _changed(scheduling.cache, left)
        for name in _UNTOUCHED:
            cache.pop(name, None)
        blocks = cache["num_kv_blocks"] = left.pop("num_kv_blocks", None) or (
            changes.get("num_kv_blocks") or scheduling.num_kv_blocks
        )
        scheduler = _changed(scheduling.scheduler, left)
        if left:
            name = next(iter(left))
            raise ConfigError(name, "is no option of the scheduler or the KV cache")
        try:
            config = EngineConfig(
                cache=msgspec.convert(cache, CacheConfig),
                scheduler=msgspec.convert(scheduler, SchedulerConfig),
                executor=ExecutorConfig(name=EXECUTOR),
                parallel=ParallelConfig(pipeline_parallel_size=scheduling.num_stages),
            )
        except msgspec.ValidationError as error:
            raise ConfigError("scheduling", str(error)) from error
        shape = ModelShape(
            architecture="",
            dtype="",
            cache_dtype="",
            vocab_size=0,
            max_model_len=scheduling.max_model_len,
            num_kv_blocks=int(str(blocks)),
            eos_token_ids=(),
        )
        return cls(config, shape)


def _changed(
    fields: Mapping[str, object], left: dict[str, object]
) -> dict[str, object]:
    """Returns fields with changes, which are taken out of what is left."""
    return {name: left.pop(name, value) for name, value in fields.items()}


def build_core(
    options: EngineOptions,
    executor: Executor,
    clock: Clock,
    *,
    sides: Mapping[str, SchedulerSide] = EMPTY,
    gates: Sequence[ReadinessGate] = (),
    kind: type[C],
    cache: Callable[[CacheConfig, int, Clock], KVCacheManager] = KVCacheManager,
) -> C:
    """Builds an engine's core.

    Args:
        options: Its options.
        executor: Answers with the results of steps.
        clock: Time source.
        sides: Scheduler's sides of extensions.
        gates: What requests may have to wait for.
        kind: The core's class.
        cache: Makes its KV cache.

    Raises:
        ConfigError: Block pool or token budget are too small for one request.
    """
    config, shape = options.config, options.shape
    check_capacity(config, shape)
    made = cache(config.cache, shape.num_kv_blocks, clock)
    parts = SchedulerParts(made, SchedulerExtensions(sides, gates))
    return kind(config, executor, clock, engine_facts(config, shape), parts)
