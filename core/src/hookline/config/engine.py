"""The whole configuration of one engine."""

from dataclasses import dataclass, field

from hookline.config.cache import CacheConfig
from hookline.config.executor import ExecutorConfig
from hookline.config.kv_events import OPTION as KV_EVENTS_OPTION
from hookline.config.kv_events import KVEventsConfig
from hookline.config.kv_transfer import OPTION as KV_TRANSFER_OPTION
from hookline.config.kv_transfer import KVTransferConfig
from hookline.config.model import ModelConfig
from hookline.config.observers import ObserverConfig
from hookline.config.scheduler import SchedulerConfig
from hookline.config.speculative import OPTION, SpeculativeConfig
from hookline.exceptions import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything that makes one engine.

    Attributes:
        speculative: How to speculate; None does not.
        kv_transfer: How KV comes from elsewhere or goes there; None moves none.
        kv_events: How changes of the prefix cache are published; None follows none.
        engine: Name in the entry-point group `hookline.engines`.
        engine_index: Which of several engines this is; on every event and series.
        in_process: Run the core in this process rather than in one of its own.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    observers: ObserverConfig = field(default_factory=ObserverConfig)
    speculative: SpeculativeConfig | None = None
    kv_transfer: KVTransferConfig | None = None
    kv_events: KVEventsConfig | None = None
    engine: str = "native"
    engine_index: int = 0
    in_process: bool = True

    def __post_init__(self) -> None:
        if self.engine_index < 0:
            raise ConfigError("engine-index", "must not be negative")
        if self.speculative is not None and self.scheduler.async_scheduling:
            raise ConfigError(
                OPTION,
                "cannot be combined with async-scheduling: drafts are made of the "
                "tokens of the step before, and there is nothing to plan ahead",
            )
        if self.kv_transfer is not None and not self.cache.enable_prefix_caching:
            raise ConfigError(
                KV_TRANSFER_OPTION,
                "needs prefix caching, which is off: blocks are known by their hashes",
            )
        if self.follows_cache and not self.cache.enable_prefix_caching:
            raise ConfigError(
                KV_EVENTS_OPTION, "needs prefix caching, which is off: nothing changes"
            )

    @property
    def follows_cache(self) -> bool:
        """Whether changes of the prefix cache are told."""
        return self.kv_events is not None and self.kv_events.enable_kv_cache_events
