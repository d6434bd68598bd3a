"""What an engine is asked to be: frozen dataclasses, checked when they are made.

They cross the process boundary as msgpack, so they hold plain values only.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from hookline.exceptions import ConfigError
from hookline.kv_events import OPTION as KV_EVENTS_OPTION
from hookline.kv_events import KVEventsConfig
from hookline.kv_transfer.config import OPTION as KV_TRANSFER_OPTION
from hookline.kv_transfer.config import KVTransferConfig
from hookline.slo import Slo
from hookline.spec_decode.config import OPTION, SpeculativeConfig


class LoadFormat(StrEnum):
    SAFETENSORS = "safetensors"
    DUMMY = "dummy"


class Dtype(StrEnum):
    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class Policy(StrEnum):
    FCFS = "fcfs"
    PRIORITY = "priority"


class ExecutorKind(StrEnum):
    UNIPROC = "uniproc"
    SIMULATED = "simulated"


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Kernels(StrEnum):
    AUTO = "auto"
    TORCH = "torch"


class HashAlgorithm(StrEnum):
    SHA256 = "sha256"
    BLAKE2B = "blake2b"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model, and how it is loaded.

    Attributes:
        model: A folder with `config.json`, or the name of an installed model
            (entry-point group `hookline.models`).
        served_model_name: What clients call it; the model's own name by default.
        tokenizer: A folder with a tokenizer; the model's own by default.
        dtype: Of weights and KV cache; `auto` takes the checkpoint's.
        load_format: `dummy` fills the weights from `seed` and reads none.
        max_model_len: Longest prompt plus output in tokens; the model's by default.
        seed: For dummy weights and for requests that bring no seed of their own.
    """

    model: str = "demo"
    served_model_name: str | None = None
    tokenizer: str | None = None
    dtype: Dtype = Dtype.AUTO
    load_format: LoadFormat = LoadFormat.SAFETENSORS
    max_model_len: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("model", "must name a folder or an installed model")
        _positive("max-model-len", self.max_model_len)

    @property
    def served_name(self) -> str:
        """The name that clients use and that metrics carry as `model_name`."""
        if self.served_model_name:
            return self.served_model_name
        return self.model.rstrip("/").rsplit("/", maxsplit=1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The paged KV cache.

    Attributes:
        block_size: Tokens a block.
        num_kv_blocks: Size of the pool; None derives it from the memory.
        kv_cache_memory: Bytes for the pool; None takes a share of what is free.
        kv_cache_prefault: Bytes of the pool that the system is asked for in the
            background after the start, where it lies in main memory; 0 asks for none.
            The rest comes when it is first written, which takes longer.
        gpu_memory_utilization: Share of a GPU's memory for everything, where the pool
            is derived from the memory; other devices do not look at it.
        enable_prefix_caching: Reuse full blocks of earlier requests.
        hash_algorithm: Of the chained block hashes.
        residency_sample: Share of the blocks whose lifetime, idle time and reuse gaps
            are measured, 0 to 1; 0 measures none.
    """

    block_size: int = 16
    num_kv_blocks: int | None = None
    kv_cache_memory: int | None = None
    kv_cache_prefault: int = 1 << 30
    gpu_memory_utilization: float = 0.9
    enable_prefix_caching: bool = True
    hash_algorithm: HashAlgorithm = HashAlgorithm.SHA256
    residency_sample: float = 0.0

    def __post_init__(self) -> None:
        _positive("block-size", self.block_size)
        _positive("num-kv-blocks", self.num_kv_blocks)
        _positive("kv-cache-memory", self.kv_cache_memory)
        if self.kv_cache_prefault < 0:
            raise ConfigError("kv-cache-prefault", "must be at least 0")
        if self.num_kv_blocks is not None and self.kv_cache_memory is not None:
            raise ConfigError(
                "num-kv-blocks", "give either this or kv-cache-memory, not both"
            )
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                "gpu-memory-utilization", "must be above 0, and 1 at most"
            )
        if not 0 <= self.residency_sample <= 1:
            raise ConfigError("kv-cache-metrics-sample", "must be 0 to 1")
        if self.residency_sample and not self.enable_prefix_caching:
            raise ConfigError(
                "kv-cache-metrics-sample", "needs prefix caching, which is off"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """How requests share a step.

    Attributes:
        max_num_seqs: Most requests in one step.
        max_num_batched_tokens: Token budget of one step.
        enable_chunked_prefill: Let a prompt be computed over several steps; without
            it, a prompt waits until the budget holds all of it.
        long_prefill_token_threshold: Most prompt tokens of one request a step; None
            lets one prompt take the whole budget.
        policy: Order of admission, and (reversed) of preemption.
        async_scheduling: Plan the next step while one is computed, before its tokens
            are known.
        max_num_queued_reqs: A server refuses requests beyond these and those that run;
            offline, prompts are the caller's own.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int | None = None
    policy: Policy = Policy.FCFS
    async_scheduling: bool = False
    max_num_queued_reqs: int = 8192

    def __post_init__(self) -> None:
        _positive("max-num-seqs", self.max_num_seqs)
        _positive("max-num-batched-tokens", self.max_num_batched_tokens)
        _positive("long-prefill-token-threshold", self.long_prefill_token_threshold)
        _positive("max-num-queued-reqs", self.max_num_queued_reqs)
        if not self.enable_chunked_prefill and self.long_prefill_token_threshold:
            raise ConfigError(
                "long-prefill-token-threshold", "needs chunked prefill, which is off"
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                "max-num-batched-tokens",
                f"{self.max_num_batched_tokens} is less than max-num-seqs "
                f"({self.max_num_seqs}): each running request needs a token a step",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """The step-time model of the simulated executor: seconds a step is the sum.

    Attributes:
        step_seconds: Fixed cost of a step.
        prefill_token_seconds: For each prompt token computed.
        decode_request_seconds: For each decoding request.
        context_token_seconds: For each token of context that attention reads.
        draft_token_seconds: For each draft token that is verified.
    """

    step_seconds: float = 0.002
    prefill_token_seconds: float = 0.00002
    decode_request_seconds: float = 0.0001
    context_token_seconds: float = 0.0
    draft_token_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ConfigError(f"simulated.{name}", "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """What computes the tokens.

    Attributes:
        kind: `uniproc` runs the model here; `simulated` runs none.
        device: Where the model runs; `auto` takes a GPU if torch finds one.
        enforce_eager: On a GPU, launch each step rather than replay graphs of decodes;
            other devices have none.
        threads: Intra-op threads of torch on processors; None is one for small models
            beside a front end, else torch's choice.
        shares_cores: Whether a front end in another process wants the processors, too;
            whoever starts the engine says so.
        kernels: `auto` takes the quickest ones that the machine has; `torch` runs the
            modules of `transformers` and plain tensor operations, which all others
            are checked against.
        simulation: Step times of the simulated executor.
    """

    kind: ExecutorKind = ExecutorKind.UNIPROC
    device: Device = Device.AUTO
    enforce_eager: bool = False
    threads: int | None = None
    shares_cores: bool = False
    kernels: Kernels = Kernels.AUTO
    simulation: SimulationConfig = field(default_factory=SimulationConfig)

    def __post_init__(self) -> None:
        _positive("threads", self.threads)


class DetailedTrace(StrEnum):
    MODEL = "model"
    WORKER = "worker"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Which metrics there are, under which names, labels and buckets.

    Every logger that reads the catalogue obeys it.

    Attributes:
        dialects: Sets of names to expose.
        histogram_buckets: Upper bounds by bucket family or by metric, in any dialect's
            name.
        include: Patterns (`*`, `?`) of names to expose; all if empty.
        exclude: Patterns of names not to expose; wins over `include`.
        labels: Constant labels on every series.
        show_hidden_for_version: Also expose the deprecated names that this version
            (`X.Y`) still showed.
        tenants: Tenants that get a label value of their own; if empty, the first
            `max_tenants` that come.
        max_tenants: Most values of the label `tenant`, `other` and `none` not counted;
            0 leaves tenants out of the metrics.
    """

    dialects: tuple[str, ...] = ("hookline", "vllm")
    histogram_buckets: dict[str, tuple[float, ...]] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    show_hidden_for_version: str | None = None
    tenants: tuple[str, ...] = ()
    max_tenants: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.max_tenants <= MOST_TENANTS:
            raise ConfigError("max-tenants", f"must be 0 to {MOST_TENANTS}")


MOST_TENANTS = 100
"""Each has some fifty series, and a page must stay quick to make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverConfig:
    """Which stat loggers listen, and how they are kept from doing harm.

    Attributes:
        stat_loggers: Names of installed loggers, or `module:Class`.
        options: For each logger its options, as text.
        lane_batches: Bound of each logger's lane, in step batches.
        breaker_failures: So many consecutive errors open a logger's breaker.
        breaker_seconds: After so long an open breaker lets one batch through.
        heartbeat_seconds: State is published at least this often.
        linger_seconds: So long a lane may gather batches to deliver them together.
        metrics: Of the catalogue.
        slo: What every request is promised, unless it brings its own.
        detailed_traces: Measure the forward pass and the executor for each request.
        keep_prompts: Give finished requests their token ids, for loggers that write
            them down.
        trace_ratio: Share of the requests without a trace of their own that are
            traced, 0 to 1; None where nobody takes traces.
    """

    stat_loggers: tuple[str, ...] = ()
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    lane_batches: int = 1024
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    heartbeat_seconds: float = 1.0
    linger_seconds: float = 0.1
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    slo: Slo | None = None
    detailed_traces: tuple[DetailedTrace, ...] = ()
    keep_prompts: bool = False
    trace_ratio: float | None = None

    def __post_init__(self) -> None:
        _positive("lane-batches", self.lane_batches)
        _positive("breaker-failures", self.breaker_failures)
        if self.heartbeat_seconds <= 0:
            raise ConfigError("heartbeat-seconds", "must be above 0")
        if not 0 <= self.linger_seconds <= 1:
            raise ConfigError("linger-seconds", "must be 0 to 1")
        if self.trace_ratio is not None and not 0 <= self.trace_ratio <= 1:
            raise ConfigError("otlp-traces-sample", "must be 0 to 1")

    def details(self, part: DetailedTrace) -> bool:
        """Whether detailed traces of this part are wanted."""
        wanted = self.detailed_traces
        return part in wanted or DetailedTrace.ALL in wanted


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


def _positive(option: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ConfigError(option, f"must be at least 1, not {value}")
