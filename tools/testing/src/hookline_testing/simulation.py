"""Engine cores without a model, on a virtual clock."""

from collections.abc import Callable, Mapping, Sequence

from hookline.clock import Clock, VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.config.extensions import DRAFTING, FAIR, PIPELINE
from hookline.engine.engine_core import EngineCore
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.readiness import ReadinessGate
from hookline.engine.worker.executor import Executor
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.making import make_scheduler_parts
from hookline.events import StepOutput
from hookline.frozen import EMPTY
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.step import ModelCost, ModelShape
from hookline_drafting.control import DraftControl
from hookline_drafting.guard import ProposerGuard
from hookline_drafting.scheduler_side import DraftingScheduler
from hookline_drafting.simulated import SimulatedDrafting
from hookline_fair.fair_queue import FairScheduling
from hookline_ranks.pipeline import PipelineScheduling
from hookline_simulated.config import SimulationConfig
from hookline_simulated.executor import SimulatedExecutor

SECOND_STEPS = SimulationConfig(
    step_seconds=1.0, prefill_token_seconds=0.0, decode_request_seconds=0.0
)
"""Every step takes one second, so that intervals are easy to predict."""

NUM_BLOCKS = 64
VOCAB_SIZE = 1000
EOS = 2


def simulated_core(
    *,
    cache: CacheConfig | None = None,
    scheduler: SchedulerConfig | None = None,
    simulation: SimulationConfig = SECOND_STEPS,
    max_model_len: int = 64,
    cost: ModelCost | None = None,
    clock: Clock | None = None,
    wrap: Callable[[Executor], Executor] | None = None,
    guard: ProposerGuard | None = None,
    control: DraftControl | None = None,
    gates: Sequence[ReadinessGate] = (),
    extensions: Mapping[str, SchedulerSide] = EMPTY,
    stages: int = 1,
    engine_index: int = 0,
    has_cache_events: bool = False,
) -> EngineCore:
    """Creates an engine core with a simulated executor.

    Args:
        cache: Without a pool size, the pool has `NUM_BLOCKS` blocks.
        scheduler: None uses the defaults.
        simulation: Duration of steps; one second each by default.
        max_model_len: Context length.
        cost: Cost of the model's steps; None means 0.
        clock: None creates a virtual clock.
        wrap: Wraps the simulated executor in another one.
        guard: Guard of a proposer, for speculative decoding.
        control: Controls the number of drafts; None always uses the maximum.
        gates: What requests have to wait for before they are admitted.
        extensions: Scheduler's sides of extensions, by their names.
        stages: Number of pipeline stages.
        engine_index: Index of the engine among several.
        has_cache_events: Whether it reports the changes of its prefix cache.
    """
    cache = cache or CacheConfig()
    clock = clock or VirtualClock()
    config = EngineConfig(
        cache=cache,
        scheduler=scheduler or SchedulerConfig(),
        executor=ExecutorConfig(name="simulated"),
        parallel=ParallelConfig(pipeline_parallel_size=stages),
        engine_index=engine_index,
        follows_cache=has_cache_events,
        sections={"simulated": simulation},
    )
    shape = ModelShape(
        architecture="Simulated",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=VOCAB_SIZE,
        max_model_len=max_model_len,
        num_kv_blocks=cache.num_kv_blocks or NUM_BLOCKS,
        eos_token_ids=(EOS,),
        cost=cost or ModelCost(),
    )
    drafting = []
    if guard is not None:
        drafting.append(
            SimulatedDrafting(guard, control, clock, max_model_len=max_model_len)
        )
        extensions = {DRAFTING: DraftingScheduler([guard.close]), **extensions}
    executor: Executor = SimulatedExecutor(
        simulation, clock, shape, extensions=drafting, stages=stages
    )
    executor = wrap(executor) if wrap else executor
    if config.scheduler.is_fair:
        extensions = {**extensions, FAIR: FairScheduling()}
    if stages > 1:
        side = PipelineScheduling(config.scheduler, config.num_steps_ahead + 1)
        extensions = {**extensions, PIPELINE: side}
    parts = make_scheduler_parts(config, executor.shape, clock, extensions, gates)
    facts = engine_facts(config, executor.shape)
    return EngineCore(config, executor, clock, facts, parts)


def engine_request(
    request_id: int,
    prompt: Sequence[int],
    max_tokens: int = 1,
    *,
    priority: int = 0,
    lora: str | None = None,
    cache_salt: str | None = None,
    prompt_logprobs: int | None = None,
    session_id: str | None = None,
) -> GenerateRequest:
    """Returns a request as the front end sends it."""
    return GenerateRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        params=SamplingParams(max_tokens=max_tokens, prompt_logprobs=prompt_logprobs),
        eos_token_ids=(EOS,),
        cache_salt=cache_salt,
        facts=RequestFacts(priority=priority, lora=lora, session_id=session_id),
        adapter=lora,
    )


def run_to_end(core: EngineCore, max_steps: int = 100_000) -> list[StepOutput]:
    """Runs steps until no request is left.

    Raises:
        RuntimeError: Requests are left after `max_steps` steps.
    """
    outputs: list[StepOutput] = []
    for _ in range(max_steps):
        if not core.has_work:
            return outputs
        outputs.append(core.step())
    raise RuntimeError(f"requests are left after {max_steps} steps")


def tokens_of(outputs: Sequence[StepOutput]) -> dict[int, list[int]]:
    """Returns all generated tokens by request."""
    tokens: dict[int, list[int]] = {}
    for output in outputs:
        for event in output.events.new_tokens:
            tokens.setdefault(event.request_id, []).extend(event.token_ids)
    return tokens
