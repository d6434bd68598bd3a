"""Small fakes of vLLM 0.32's classes, with exactly its names of what is read."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

from hookline.clock import SystemClock


class FinishReason:
    """A reason, which prints as vLLM's."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name


STOP, LENGTH, ABORT, ERROR = map(FinishReason, ("stop", "length", "abort", "error"))


@dataclass
class SamplingParams:
    n: int = 1
    max_tokens: int | None = 16
    min_tokens: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    output_kind: object = field(default_factory=lambda: SimpleNamespace(value=1))


@dataclass
class EngineCoreRequest:
    request_id: str
    external_req_id: str | None = None
    prompt_token_ids: list[int] | None = None
    prompt_embeds: object = None
    sampling_params: SamplingParams | None = field(default_factory=SamplingParams)
    arrival_time: float = field(default_factory=lambda: SystemClock().wall() / 1e9)
    lora_request: object = None
    priority: int = 0
    session_id: str | None = None
    trace_headers: Mapping[str, str] | None = None


@dataclass
class EngineCoreEvent:
    type: int
    timestamp: float


@dataclass
class PrefillStats:
    num_prompt_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0


@dataclass
class EngineCoreOutput:
    request_id: str
    new_token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    events: list[EngineCoreEvent] | None = None
    prefill_stats: PrefillStats | None = None
    pooling_output: object = None


@dataclass
class PrefixCacheStats:
    requests: int = 0
    queries: int = 0
    hits: int = 0


@dataclass
class SchedulerStats:
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    kv_cache_usage: float = 0.0
    prefix_cache_stats: PrefixCacheStats = field(default_factory=PrefixCacheStats)
    kv_cache_eviction_events: list[object] = field(default_factory=list)


@dataclass
class PromptTokenStats:
    computed: int = 0
    local_cache_hit: int = 0
    external_kv_transfer: int = 0


@dataclass
class FinishedRequestStats:
    finish_reason: FinishReason
    request_id: str | None = None
    e2e_latency: float = 0.0
    num_prompt_tokens: int = 0
    num_preemptions: int = 0
    num_generation_tokens: int = 0
    max_tokens_param: int | None = None
    queued_time: float = 0.0
    prefill_time: float = 0.0
    inference_time: float = 0.0
    decode_time: float = 0.0
    num_cached_tokens: int = 0


@dataclass
class IterationStats:
    num_generation_tokens: int = 0
    prompt_token_stats: PromptTokenStats = field(default_factory=PromptTokenStats)
    num_preempted_reqs: int = 0
    finished_requests: list[FinishedRequestStats] = field(default_factory=list)
    time_to_first_tokens_iter: list[float] = field(default_factory=list)
    inter_token_latencies_iter: list[float] = field(default_factory=list)


class AggregateStatLoggerBase:
    """The base class of loggers."""


def plan(
    tokens: dict[str, int],
    *,
    new: dict[str, int] | None = None,
    cached: dict[str, int] | None = None,
    resumed: tuple[str, ...] = (),
    preempts: tuple[SimpleNamespace, ...] = (),
) -> SimpleNamespace:
    """Returns a `SchedulerOutput`; `new` and `cached` have the tokens computed before.

    What it preempts only a fake scheduler reads.
    """
    news = [
        SimpleNamespace(
            req_id=name,
            num_computed_tokens=computed,
            block_ids=([1, 2],),
        )
        for name, computed in (new or {}).items()
    ]
    known = cached or {}
    return SimpleNamespace(
        num_scheduled_tokens=tokens,
        scheduled_new_reqs=news,
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(known),
            num_computed_tokens=list(known.values()),
            new_block_ids=[([3],) if each in resumed else None for each in known],
            resumed_req_ids=set(resumed),
        ),
        scheduled_spec_decode_tokens={},
        preempts=preempts,
    )


def output_processor() -> type:
    """Returns a class of its own, as tests wrap its methods."""

    class OutputProcessor:
        """Knows which requests are open, and ends them."""

        def __init__(self) -> None:
            self.request_states: dict[str, EngineCoreRequest] = {}
            self.stop_strings: set[str] = set()

        def add_request(
            self,
            request: EngineCoreRequest,
            prompt: str | None,  # noqa: ARG002
            parent_req: object = None,  # noqa: ARG002
            request_index: int = 0,  # noqa: ARG002
            queue: object = None,  # noqa: ARG002
        ) -> None:
            self.request_states[request.request_id] = request

        def process_outputs(
            self,
            engine_core_outputs: list[EngineCoreOutput],
            engine_core_timestamp: float | None = None,  # noqa: ARG002
            iteration_stats: object = None,  # noqa: ARG002
            weight_version: str | None = None,  # noqa: ARG002
        ) -> SimpleNamespace:
            stopped = []
            for output in engine_core_outputs:
                ends = output.finish_reason is not None
                if not ends and output.request_id in self.stop_strings:
                    stopped.append(output.request_id)
                if ends or output.request_id in stopped:
                    self.request_states.pop(output.request_id, None)
            return SimpleNamespace(request_outputs=[], reqs_to_abort=stopped)

        def abort_requests(
            self,
            request_ids: Iterable[str],
            internal: bool,  # noqa: ARG002
        ) -> list[str]:
            return [each for each in request_ids if self.request_states.pop(each, None)]

    return OutputProcessor


def vllm_config(
    *, num_blocks: int = 101, servers: int = 1, server: int = 0
) -> SimpleNamespace:
    """Returns what is read of a `VllmConfig`, in one of several API servers."""
    return SimpleNamespace(
        model_config=SimpleNamespace(
            model="/models/tiny",
            served_model_name="tiny",
            architectures=["LlamaForCausalLM"],
            dtype="torch.float32",
            max_model_len=1024,
            get_vocab_size=lambda: 512,
        ),
        cache_config=SimpleNamespace(
            cache_dtype="auto",
            num_gpu_blocks=num_blocks,
            block_size=16,
            enable_prefix_caching=True,
            gpu_memory_utilization=0.9,
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=256),
        parallel_config=SimpleNamespace(
            data_parallel_size=1,
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            _api_process_count=servers,
            _api_process_rank=server,
        ),
    )


class FakeVllm:
    """vLLM's front end: adds requests, processes outputs, and records iterations."""

    def __init__(self, processor: object, stat_logger: object) -> None:
        self.processor: SimpleNamespace = processor  # type: ignore[assignment]
        self.stat_logger: SimpleNamespace = stat_logger  # type: ignore[assignment]
        self._seconds = itertools.count(SystemClock().now() / 1e9, 0.01)

    @property
    def seconds(self) -> float:
        """The engine's clock, which goes on with each reading."""
        return next(self._seconds)

    def add(
        self, name: str, prompt: int = 8, parent: object = None, **fields: object
    ) -> None:
        """Adds a request; `parent` has the id and the number of its completions."""
        request = EngineCoreRequest(
            name,
            f"cmpl-{name}",
            list(range(prompt)),
            **fields,  # type: ignore[arg-type]
        )
        self.processor.add_request(request, None, parent)

    def step(
        self,
        *outputs: EngineCoreOutput,
        engine: int = 0,
        stats: SchedulerStats | None = None,
        iteration: IterationStats | None = None,
    ) -> None:
        """Processes what an engine's step has given, and records it."""
        self.processor.process_outputs(list(outputs), self.seconds, iteration)
        self.stat_logger.record(
            scheduler_stats=stats or SchedulerStats(len(self.processor.request_states)),
            iteration_stats=iteration or IterationStats(),
            mm_cache_stats=None,
            engine_idx=engine,
        )
