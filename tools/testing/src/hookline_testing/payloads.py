"""Hand-made payloads for tests of loggers."""

from typing import Any

from hookline.events import ClockPair, StepEvents, StepOutput, StepRecord
from hookline.finish_cause import (
    Aborted,
    Failed,
    FinishCause,
    LengthReached,
    Rejected,
    StoppedByToken,
    TimedOut,
)
from hookline.payloads import EngineFacts, EngineStarted, StateChanged, StepFinished
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingDefaults
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import StepWork
from hookline.step import ModelShape
from hookline_registry import LaneStats

MILLISECOND = 1_000_000

FACTS = EngineFacts(
    engine_index=0,
    model_name="tiny",
    model=ModelShape(
        architecture="LlamaForCausalLM",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=512,
        max_model_len=100,
        eos_token_ids=(0,),
        num_kv_blocks=40,
        isa="avx512",
        sampling=SamplingDefaults(values={"temperature": 0.6}, source="a file"),
    ),
    block_size=16,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    enable_prefix_caching=True,
    executor="simulated",
    version="0.1.0",
    config_hash="0123456789ab",
)

RECORD = StepRecord(
    step=1,
    engine_index=0,
    started_at=0,
    scheduled_at=1 * MILLISECOND,
    executed_at=9 * MILLISECOND,
    ended_at=10 * MILLISECOND,
    request_tokens=[(1, 12), (2, 1), (3, 1)],
    work=StepWork(
        prefill_requests=1, prefill_tokens=12, decode_requests=2, decode_tokens=2
    ),
)

CAUSES: dict[FinishReason, FinishCause] = {
    cause.reason: cause
    for cause in (
        StoppedByToken(0),
        LengthReached(),
        Aborted("client"),
        Failed("killed by signal 9"),
        Rejected("overloaded", "2 completions are open"),
        TimedOut(),
    )
}
"""A finish cause of each reason."""

FINISHED = FinishedRequest(
    request_id=1,
    facts=RequestFacts(client_id="a"),
    cause=StoppedByToken(0),
    params=SamplingParams(max_tokens=30),
    prompt_tokens=12,
    local_cached_tokens=4,
    external_cached_tokens=1,
    output_tokens=5,
    preemptions=2,
    recomputed_tokens=9,
    queue_seconds=0.5,
    prefill_seconds=1.0,
    decode_seconds=4.0,
    inference_seconds=5.0,
    preempted_seconds=0.75,
    last_scheduled_seconds=1.25,
    last_prefill_seconds=0.25,
    last_decode_seconds=2.0,
    last_inference_seconds=2.25,
    ttft_seconds=1.5,
    e2e_seconds=6.0,
    tpot_seconds=1.0,
)
"""Returns a finished request that was preempted twice and reached every phase."""


def make_started(facts: EngineFacts = FACTS) -> EngineStarted:
    """Returns an engine's start at 0 on its clock."""
    return EngineStarted(facts=facts, clock=ClockPair(wall=0, monotonic=0))


def make_step(
    iteration: IterationStats | None = None,
    scheduler: SchedulerStats | None = None,
    *,
    record: StepRecord = RECORD,
) -> StepFinished:
    """Returns a finished step of the record's engine."""
    return StepFinished(
        engine_index=record.engine_index,
        record=record,
        iteration=iteration or IterationStats(),
        scheduler=scheduler or SchedulerStats(),
    )


def make_state(
    iteration: IterationStats | None = None,
    scheduler: SchedulerStats | None = None,
    *,
    at: int = 0,
    engine_index: int = 0,
    lanes: tuple[LaneStats, ...] = (),
) -> StateChanged:
    """Returns a heartbeat, or another state change between steps."""
    return StateChanged(
        engine_index=engine_index,
        cause="heartbeat",
        at=at,
        scheduler=scheduler or SchedulerStats(),
        iteration=iteration or IterationStats(),
        lanes=lanes,
    )


def make_output(at: int = 0, **given: object) -> StepOutput:
    """Makes an output of a step by hand, from its own fields and its events."""
    names = StepEvents.__struct_fields__
    events: dict[str, Any] = {name: given.pop(name) for name in names if name in given}
    return StepOutput(
        0,
        at,
        "step",
        SchedulerStats(),
        events=StepEvents(**events),
        **given,  # type: ignore[arg-type]
    )
