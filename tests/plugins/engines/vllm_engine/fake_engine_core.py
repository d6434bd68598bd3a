"""vLLM 0.32's engine core in small, with exactly its names of what the engine uses."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from hookline_vllm_engine.binding import Binding

BLOCKS = 65
"""The pool's, of which the first stands for what is no token."""


class VLLMError(Exception):
    """No `ValueError`, as vLLM's own errors of requests."""


@dataclass(kw_only=True)
class StructuredOutputsParams:
    json: object = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None


@dataclass(kw_only=True)
class SamplingParams:
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    skip_reading_prefix_cache: bool | None = None
    structured_outputs: StructuredOutputsParams | None = None
    _bad_words_token_ids: list[list[int]] | None = None
    eos: tuple[object, int | None] | None = None

    def update_from_generation_config(
        self, generation_config: dict[str, Any], eos_token_id: int | None = None
    ) -> None:
        self.eos = (generation_config["eos_token_id"], eos_token_id)

    def verify(self, *_: object) -> None:
        wanted = self.structured_outputs
        if wanted is not None and wanted.regex == "[":
            raise VLLMError("the expression is not closed")


@dataclass(kw_only=True)
class PoolingParams:
    task: str | None = None
    dimensions: int | None = None
    use_activation: bool | None = None
    skip_reading_prefix_cache: bool | None = None

    def verify(self, model_config: object) -> None:
        del model_config
        if self.dimensions == 1:
            raise ValueError("too short a vector")


@dataclass(kw_only=True)
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str
    base_model_name: str | None = None


class PauseState(IntEnum):
    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


@dataclass(kw_only=True)
class EngineCoreRequest:
    request_id: str
    prompt_token_ids: list[int]
    mm_features: None
    sampling_params: SamplingParams | None
    pooling_params: PoolingParams | None
    arrival_time: float
    lora_request: LoRARequest | None
    cache_salt: str | None
    data_parallel_rank: None
    priority: int = 0
    trace_headers: dict[str, str] | None = None
    external_req_id: str | None = None
    session_id: str | None = None
    num_computed_tokens: int = 0


@dataclass
class EngineCoreOutput:
    request_id: str
    new_token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    new_logprobs: object = None
    new_prompt_logprobs_tensors: object = None
    pooling_output: object = None


def new_output(request_id: str) -> EngineCoreOutput:
    return EngineCoreOutput(request_id, [5])


@dataclass
class Scheduler:
    """Runs all requests at once, a token in each step, until they have enough."""

    requests: dict[str, EngineCoreRequest] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    given: dict[str, int] = field(default_factory=dict)
    deferred_waiting: set[str] = field(default_factory=set)
    make: Callable[[str], EngineCoreOutput] = new_output
    drafts: Sequence[int] = ()
    max_num_running_reqs: int = 8
    max_num_scheduled_tokens: int = 64
    pause_state: PauseState = PauseState.UNPAUSED
    vllm_config: object = None

    def __post_init__(self) -> None:
        pool = SimpleNamespace(
            num_gpu_blocks=BLOCKS,
            get_num_free_blocks=lambda: BLOCKS - 1 - len(self.begun),
        )
        self.kv_cache_manager = SimpleNamespace(block_pool=pool)

    @property
    def running(self) -> Sequence[str]:
        return sorted(self.begun)

    @property
    def waiting(self) -> Sequence[str]:
        return [each for each in self.requests if each not in self.begun]

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting)

    def set_pause_state(self, state: PauseState) -> None:
        self.pause_state = state

    def has_requests(self) -> bool:
        if self.pause_state is PauseState.PAUSED_ALL:
            return False
        paused = self.pause_state is PauseState.PAUSED_NEW
        return bool(self.begun if paused else self.requests)

    def add_request(self, request: EngineCoreRequest) -> None:
        self.requests[request.request_id] = request

    def schedule(self) -> Any:
        new = [] if self.pause_state else self.waiting
        self.begun |= set(new)
        old = [each for each in self.running if each not in new]
        made = [
            SimpleNamespace(req_id=each, num_computed_tokens=0, block_ids=([1],))
            for each in new
        ]
        cached = SimpleNamespace(
            req_ids=old,
            num_computed_tokens=[8] * len(old),
            new_block_ids=[None] * len(old),
            resumed_req_ids=set(),
        )
        tokens = {each: len(self.requests[each].prompt_token_ids) for each in new}
        return SimpleNamespace(
            total_num_scheduled_tokens=sum(tokens.values()) + len(old),
            num_scheduled_tokens={**tokens, **dict.fromkeys(old, 1 + len(self.drafts))},
            scheduled_new_reqs=made,
            scheduled_cached_reqs=cached,
            scheduled_spec_decode_tokens=dict.fromkeys(old, self.drafts),
        )

    def get_grammar_bitmask(self, plan: object) -> None: ...

    def update_from_output(self, plan: Any, result: object) -> Any:
        del result
        outputs = []
        for name in plan.num_scheduled_tokens:
            if (request := self.requests.get(name)) is None:
                continue  # it was ended meanwhile
            output = self.make(name)
            self.given[name] = self.given.get(name, 0) + 1
            params = request.sampling_params
            is_last = params is not None and self.given[name] == params.max_tokens
            if is_last and output.finish_reason is None:
                output.finish_reason = "length"
            if output.finish_reason is not None:
                self._forget(name)
            outputs.append(output)
        return {0: SimpleNamespace(outputs=outputs, scheduler_stats=None)}

    def _preempt_request(self, request: object, timestamp: float) -> None:
        del request, timestamp

    def finish_requests(self, request_ids: Iterable[str], status: object) -> Any:
        del status
        found = [self.requests[each] for each in request_ids if each in self.requests]
        for request in found:
            self._forget(request.request_id)
        return found

    def _forget(self, name: str) -> None:
        self.begun.discard(name)
        self.requests.pop(name, None)


class EngineCore:
    """The core.

    Attributes:
        resets: What was asked of the prefix cache.
        calls: What the workers were asked to do.
        error: What the model raises.
    """

    batch_queue = None
    is_mm_encoder_only = is_pooling_model = False

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.vllm_config = SimpleNamespace(
            model_config=SimpleNamespace(enable_sleep_mode=False),
            speculative_config=None,
            structured_outputs_config=None,
        )
        self.done: list[object] = []
        self.resets: list[bool] = []
        self.calls: list[str] = []
        self.error: Exception | None = None
        self.fails: Callable[[], None] = lambda: None
        self.model_executor = self
        self.is_shut_down = self.is_reset = False

    def register_failure_callback(self, callback: Callable[[], None]) -> None:
        self.fails = callback

    def preprocess_add_request(
        self, request: EngineCoreRequest
    ) -> tuple[EngineCoreRequest, int]:
        return request, 0

    def add_request(self, request: EngineCoreRequest, wave: int) -> None:
        del wave
        self.scheduler.add_request(request)

    def abort_requests(self, request_ids: list[str]) -> None:
        self.scheduler.finish_requests(request_ids, "aborted")

    def log_error_detail(self, plan: object) -> AbstractContextManager[None]:
        del plan
        return nullcontext()

    def execute_model(self, plan: object, *, non_block: bool) -> Future[object]:
        """Called as the executor, whose workers compute by themselves."""
        del plan
        assert non_block
        self.calls.append("execute_model")
        computed = Future[object]()
        if self.error is None:
            computed.set_result(None)
        else:
            computed.set_exception(self.error)
        return computed

    def sample_tokens(self, grammar: object, *, non_block: bool) -> Future[object]:
        """Has no result if there is none of the model."""
        del grammar
        assert non_block
        self.calls.append("sample_tokens")
        sampled = Future[object]()
        sampled.set_result("samples" if self.error is None else None)
        return sampled

    def step_fn(self) -> tuple[Any, bool]:
        plan = self.scheduler.schedule()
        self.scheduler.get_grammar_bitmask(plan)
        return self.scheduler.update_from_output(plan, None), True

    def post_step(self, is_executed: bool) -> None:
        assert is_executed

    def reset_prefix_cache(self, *, reset_running_requests: bool) -> bool:
        self.resets.append(reset_running_requests)
        return self.is_reset

    def sleep(self, level: int, mode: str) -> None:
        self.scheduler.set_pause_state(PauseState.PAUSED_ALL)
        self.done.append((level, mode))

    def wake_up(self, tags: list[str] | None = None) -> None:
        self.done.append(tags)
        if tags != ["weights"]:
            self.resume_scheduler()

    def resume_scheduler(self) -> None:
        self.scheduler.set_pause_state(PauseState.UNPAUSED)

    def collective_rpc(self, method: str) -> None:
        self.done.append(method)

    def add_lora(self, lora_request: LoRARequest) -> None:
        if lora_request.lora_name == "wrong":
            raise ValueError("its rank is above --max-lora-rank")
        self.done.append(lora_request.lora_name)

    def shutdown(self) -> None:
        self.is_shut_down = True


BINDING = Binding(
    AsyncEngineArgs=None,
    FlexibleArgumentParser=None,
    EngineCore=EngineCore,
    EngineCoreRequest=EngineCoreRequest,
    Executor=None,
    LoRARequest=LoRARequest,
    PauseState=PauseState,
    PoolingParams=PoolingParams,
    SamplingParams=SamplingParams,
    StructuredOutputsParams=StructuredOutputsParams,
    VLLMError=VLLMError,
    cached_tokenizer_from_config=None,
    current_platform=SimpleNamespace(is_sleep_mode_available=lambda: False),
    version="0.32",
)
