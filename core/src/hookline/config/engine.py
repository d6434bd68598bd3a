"""The whole configuration of one engine."""

from dataclasses import dataclass, replace
from typing import Self

from hookline.config.cache import CacheConfig
from hookline.config.executor import AUTO, ExecutorConfig
from hookline.config.expert_spread import check_expert_spread
from hookline.config.extensions import OPTION as EXTENSION_OPTION
from hookline.config.extensions import (
    POOLER_OPTION,
    SPECULATIVE_OPTION,
    STRUCTURED_OUTPUTS_OPTION,
    check_extensions,
)
from hookline.config.kv_events import OPTION as KV_EVENTS_OPTION
from hookline.config.kv_events import KVEventsConfig
from hookline.config.kv_transfer import OPTION as KV_TRANSFER_OPTION
from hookline.config.kv_transfer import KVTransferConfig
from hookline.config.machines import OWN_PROCESSES, MachinesConfig
from hookline.config.model import ModelConfig
from hookline.config.observers import ObserverConfig
from hookline.config.options import build, check_options, option, section
from hookline.config.parallel import LoadBalancing, ParallelConfig
from hookline.config.scheduler import SchedulerConfig
from hookline.config.supervision import SupervisionConfig
from hookline.exceptions import ConfigError

_EXECUTOR_NAMES = {"uni": "uniproc"}
"""vLLM's names of executors."""
_ONE_RANK = ("uniproc", "simulated")
"""Executors without a rank for each part of a layer."""
_RAY = "ray"
"""Name of a data-parallel backend and of an executor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Configuration of one engine, or of the first of several.

    Attributes:
        engine_index: Index of this engine among several; a label of every event and
            series.
    """

    model: ModelConfig = section("model", ModelConfig)
    cache: CacheConfig = section("KV cache", CacheConfig)
    scheduler: SchedulerConfig = section("scheduler", SchedulerConfig)
    speculative: dict[str, object] | None = option(
        "Speculative decoding, such as "
        '{"method": "ngram", "num_speculative_tokens": "auto"}.',
        default=None,
        flag=SPECULATIVE_OPTION,
        group="scheduler",
        metavar="JSON",
        read_mapping=dict,
    )
    kv_transfer: KVTransferConfig | None = option(
        "KV connector that loads and saves KV blocks, such as "
        '{"kv_connector": "cpu_offload"}.',
        default=None,
        flag="kv-transfer-config",
        group="KV cache",
        metavar="JSON",
        read_mapping=KVTransferConfig.from_mapping,
    )
    kv_events: KVEventsConfig | None = option(
        "Publish the prefix cache's stored and removed blocks, such as "
        '{"enable_kv_cache_events": true}.',
        default=None,
        flag="kv-events-config",
        group="KV cache",
        metavar="JSON",
        read_mapping=KVEventsConfig.from_mapping,
    )
    pooler: dict[str, object] | None = option(
        'How hidden states become embeddings, such as {"pooling_type": "MEAN"}.',
        default=None,
        flag=POOLER_OPTION,
        group="model",
        metavar="JSON",
        shown_default="the model folder's, else LAST, normalized",
        read_mapping=dict,
    )
    extensions: dict[str, dict[str, object]] = option(
        "Further installed extensions: an object of options for each, by name.",
        default_factory=dict,
        flag=EXTENSION_OPTION,
        group="model",
        metavar="JSON",
        shown_default="none",
        read_mapping=check_extensions,
    )
    logits_processors: tuple[str, ...] = option(
        "Installed logits processor, applied after the built-in ones.",
        default=(),
        flag="logits-processor",
        group="model",
        metavar="NAME",
        shown_default="none",
    )
    structured_outputs: dict[str, object] = option(
        "Grammar backend of structured outputs and its limits, such as "
        '{"backend": "llguidance"}.',
        default_factory=dict,
        flag=STRUCTURED_OUTPUTS_OPTION,
        group="model",
        metavar="JSON",
        shown_default="xgrammar, if installed",
        read_mapping=dict,
    )
    engine: str = option(
        "Installed engine.", default="native", group="executor", metavar="NAME"
    )
    engine_index: int = 0
    in_process: bool = option(
        "Run the engine core in the front end's process instead of its own.",
        default=True,
        group="executor",
        shown_default="no for serve and for several engines, otherwise yes",
    )
    executor: ExecutorConfig = section("executor", ExecutorConfig)
    parallel: ParallelConfig = section("executor", ParallelConfig)
    machines: MachinesConfig = section("several machines", MachinesConfig)
    supervision: SupervisionConfig = section("supervision", SupervisionConfig)
    observers: ObserverConfig = section("stat loggers", ObserverConfig)

    def __post_init__(self) -> None:
        check_options(self)
        if self.engine_index < 0:
            raise ConfigError("engine-index", "must be at least 0")
        self._check_machines()
        self._check_ray()
        check_expert_spread(self)
        if self.parallel.pipeline_parallel_size > 1:
            self._check_pipeline()
        if self.parallel.tensor_parallel_size > 1 and self.executor_name in _ONE_RANK:
            raise ConfigError(
                "tensor-parallel-size",
                f"{self.parallel.tensor_parallel_size} is not supported: the executor "
                f"{self.executor_name} has one rank; mp has several",
            )
        if self.kv_transfer is not None and not self.cache.enable_prefix_caching:
            raise ConfigError(
                KV_TRANSFER_OPTION,
                "requires enable-prefix-caching: blocks are identified by their hashes",
            )
        if (
            self.parallel.load_balancing is LoadBalancing.PREFIX
            and not self.cache.enable_prefix_caching
        ):
            raise ConfigError("load-balancing", "prefix requires enable-prefix-caching")
        if self.follows_cache and not self.cache.enable_prefix_caching:
            raise ConfigError(KV_EVENTS_OPTION, "requires enable-prefix-caching")

    def _check_ray(self) -> None:
        places_engines = self.machines.backend == _RAY
        places_ranks = self.executor_name == _RAY
        if places_engines and places_ranks:
            raise ConfigError(
                "data-parallel-backend",
                "ray cannot be combined with the executor ray: the one keeps the ranks "
                "of an engine on one node, the other places each rank",
            )
        if self.machines.ray_address is not None and not (
            places_engines or places_ranks
        ):
            raise ConfigError(
                "ray-address", "requires --data-parallel-backend ray or --executor ray"
            )

    def _check_pipeline(self) -> None:
        if self.executor_name == "uniproc":
            raise ConfigError(
                "pipeline-parallel-size",
                f"{self.parallel.pipeline_parallel_size} is not supported: the "
                "executor uniproc has one rank; the supported value is 1",
            )

    @classmethod
    def from_options(cls, **options: object) -> Self:
        """Makes a configuration from the command line's options as flat keywords.

        Args:
            **options: Options by their flag's name, with underscores for dashes:
                `EngineConfig.from_options(model="demo", max_num_seqs=4)`. Enumerations
                may be strings; JSON options are mappings or dataclasses. Several
                engines do not run in this process, unless `in_process` is given.
                `distributed_executor_backend` is vLLM's name of `executor`.

        Raises:
            ConfigError: A keyword is unknown, or a value does not fit.
        """
        if (backend := options.pop("distributed_executor_backend", None)) is not None:
            options.setdefault("executor", backend)
        has_others = (
            options.get("data_parallel_backend", OWN_PROCESSES) != OWN_PROCESSES
            or options.get("autoscale") is not None
        )
        if has_others or options.get("data_parallel_size", 1) != 1:
            options.setdefault("in_process", False)
        return build(cls, options)

    @property
    def engine_indices(self) -> range:
        """The indices of all engines of this server, if this is the first one's."""
        if self.machines.is_one_of_many:
            return self.local_indices
        first = self.engine_index
        return range(first, first + self.parallel.data_parallel_size)

    @property
    def executor_name(self) -> str:
        """Name of the executor's entry point."""
        name = self.executor.name
        if name == AUTO:
            return "uniproc" if self.parallel.world_size == 1 else "mp"
        return _EXECUTOR_NAMES.get(name, name)

    @property
    def num_steps_ahead(self) -> int:
        """Number of steps that are started before the oldest one is awaited."""
        stages = self.parallel.pipeline_parallel_size
        return stages - 1 + int(self.scheduler.async_scheduling)

    @property
    def local_indices(self) -> range:
        """The indices of the engines on this machine."""
        size, start = self.parallel.data_parallel_size, self.machines.start_rank
        if (rank := self.machines.rank) is not None:
            return range(rank, rank + 1)
        local = self.machines.num_local
        return range(start, size if local is None else start + local)

    @property
    def remote_indices(self) -> list[int]:
        """The indices of the engines on other machines that this server has, too."""
        if self.machines.is_one_of_many:
            return []
        size, local = self.parallel.data_parallel_size, self.local_indices
        return [index for index in range(size) if index not in local]

    @property
    def most_local(self) -> int:
        """Number of engines that divide this machine, by `autoscale` the greatest."""
        limits, machines = self.parallel.autoscale, self.machines
        if limits is None or machines.is_placed or machines.size_local is not None:
            return len(self.local_indices)
        return limits.maximum

    @property
    def num_concurrent(self) -> int:
        """Number of ranks that compute at the same time, on the same cores."""
        engines = 1 if self.in_process else self.most_local
        return engines * self.parallel.num_here

    def of_engine(self, engine_index: int) -> Self:
        """Returns the configuration of an engine; all differ in their index only."""
        return replace(self, engine_index=engine_index)

    def per_engine(self) -> list[Self]:
        """Returns the configurations of this machine's engines."""
        return [self.of_engine(index) for index in self.local_indices]

    def _check_machines(self) -> None:
        size, local = self.parallel.data_parallel_size, self.local_indices
        if local.start >= size:
            is_one = self.machines.rank is not None
            raise ConfigError(
                "data-parallel-rank" if is_one else "data-parallel-start-rank",
                f"{local.start} is not below data-parallel-size, {size}",
            )
        if local.stop > size:
            raise ConfigError(
                "data-parallel-size-local",
                f"{len(local)} engines from {local.start} on are more than "
                f"data-parallel-size, {size}",
            )

    @property
    def follows_cache(self) -> bool:
        """Whether changes of the prefix cache are published."""
        return self.kv_events is not None and self.kv_events.enable_kv_cache_events
