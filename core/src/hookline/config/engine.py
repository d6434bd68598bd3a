"""The whole configuration of one engine."""

from dataclasses import dataclass, replace
from typing import Self

from hookline.config.cache import CacheConfig
from hookline.config.executor import AUTO, ExecutorConfig
from hookline.config.extensions import (
    KV_TRANSFER_OPTION,
    POOLER_OPTION,
    SPECULATIVE_OPTION,
    STRUCTURED_OUTPUTS_OPTION,
    check_extensions,
)
from hookline.config.extensions import OPTION as EXTENSION_OPTION
from hookline.config.model import ModelConfig
from hookline.config.observers import ObserverConfig
from hookline.config.options import build, check_options, installed, option, section
from hookline.config.parallel import ParallelConfig
from hookline.config.readers import read_label
from hookline.config.scheduler import SchedulerConfig
from hookline.config.sections import (
    ConfigSection,
    installed_sections,
    missing_distribution,
)
from hookline.exceptions import ConfigError

OWN_ENGINE = "native"
"""Name of Hookline's own engine."""
_EXECUTOR_NAMES = {"uni": "uniproc"}
"""vLLM's names of executors."""
_ONE_RANK = ("uniproc", "simulated")
"""Executors without a rank for each part of a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Configuration of one engine, or of the first of several.

    Attributes:
        engine_index: Index of this engine among several; a label of every event and
            series.
        sections: Sections of installed distributions, by their keys. What follows is
            theirs to set.
        server_indices: The indices of the server's engines; empty for this one alone.
        engines_here: Number of engines that divide this machine.
        prefers_processes: Whether engines have processes of their own by default.
        server_option: The option that only a server can have; empty without one.
        process_option: The option that requires engine processes; empty without one.
        follows_cache: Whether changes of the prefix cache are reported.
        implied_loggers: Loggers to load besides those that are named.
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
    kv_transfer: dict[str, object] | None = option(
        "KV connector that loads and saves KV blocks, such as "
        '{"kv_connector": "cpu_offload"}.',
        default=None,
        flag=KV_TRANSFER_OPTION,
        group="KV cache",
        metavar="JSON",
        read_mapping=dict,
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
        "Installed engine.", default=OWN_ENGINE, group="executor", metavar="NAME"
    )
    engine_options: dict[str, str] = option(
        "Option of another installed engine.",
        default_factory=dict,
        flag="engine-option",
        group="executor",
        read=read_label,
    )
    engine_arguments: tuple[str, ...] = option(
        "Argument of another installed engine, like those after `--`.",
        default=(),
        flag="engine-argument",
        group="executor",
        metavar="ARGUMENT",
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
    observers: ObserverConfig = section("stat loggers", ObserverConfig)
    sections: dict[str, object] = installed(installed_sections)
    server_indices: tuple[int, ...] = ()
    engines_here: int = 1
    prefers_processes: bool = False
    server_option: str = ""
    process_option: str = ""
    follows_cache: bool = False
    implied_loggers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_options(self)
        if self.engine_index < 0:
            raise ConfigError("engine-index", "must be at least 0")
        for found in self.sections.values():
            if isinstance(found, ConfigSection):  # not as another process sent it
                found.check(self)
                for name, value in found.derived(self).items():
                    object.__setattr__(self, name, value)
        if self.engine == OWN_ENGINE and (self.engine_options or self.engine_arguments):
            flag = "engine-option" if self.engine_options else "engine-argument"
            raise ConfigError(
                flag, f"the engine {OWN_ENGINE} takes none: name --engine"
            )
        self._check_experts()
        if self.parallel.pipeline_parallel_size > 1:
            self._check_pipeline()
        if self.parallel.tensor_parallel_size > 1 and self.executor_name in _ONE_RANK:
            raise ConfigError(
                "tensor-parallel-size",
                f"{self.parallel.tensor_parallel_size} is not supported: the executor "
                f"{self.executor_name} has one rank; mp has several",
            )

    def _check_experts(self) -> None:
        parallel = self.parallel
        is_alone = parallel.tensor_parallel_size == len(self.engine_indices) == 1
        if parallel.enable_expert_parallel and is_alone:
            raise ConfigError(
                "enable-expert-parallel",
                "requires tensor-parallel-size or data-parallel-size of at least 2: "
                "experts are spread over the ranks of all engines",
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
        made = build(cls, options, missing_distribution)
        if made.prefers_processes and "in_process" not in options:
            return replace(made, in_process=False)
        return made

    @property
    def engine_indices(self) -> tuple[int, ...]:
        """The indices of all engines of this server, if this is the first one's."""
        return self.server_indices or (self.engine_index,)

    @property
    def spreads_experts(self) -> bool:
        """Whether several engines share the model's experts."""
        return self.parallel.enable_expert_parallel and len(self.engine_indices) > 1

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
        return stages - 1 + int(self.scheduler.async_scheduling or False)

    @property
    def num_concurrent(self) -> int:
        """Number of ranks that compute at the same time, on the same cores."""
        engines = 1 if self.in_process else self.engines_here
        return engines * self.parallel.num_here

    def on_gpu(self) -> Self:
        """Returns the configuration with the defaults of a model on a GPU."""
        scheduler = self.scheduler.on_gpu(drafts=self.speculative is not None)
        return replace(self, scheduler=scheduler)

    def of_engine(self, engine_index: int) -> Self:
        """Returns the configuration of an engine; all differ in their index only."""
        return replace(self, engine_index=engine_index)


def path_of_engine(path: str, engine_index: int) -> str:
    """Returns an engine's own path: engine 0 has the given one, as in vLLM."""
    return f"{path}_dp{engine_index}" if engine_index else path
