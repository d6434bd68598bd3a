"""Whatever a connector does: right tokens, all requests end, no block is lost."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ExecutorKind,
    SchedulerConfig,
    SimulationConfig,
)
from hookline.engine.building import simulated_cache
from hookline.engine.core import WAIT, EngineCore
from hookline.events import StepOutput
from hookline.kv_transfer import KVTransferConfig, LoadFailurePolicy
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.request import EngineRequest, FinishReason
from hookline.sampling_params import SamplingParams
from hookline.stats import Residue
from hookline.testing.connectors import DictScheduler, DictStore, DictWorker, Faults
from hookline.worker.executor import ModelShape
from hookline.worker.simulated import SimulatedExecutor

VOCAB = 1000
BLOCK = 4
STEPS = SimulationConfig(
    step_seconds=0.01, prefill_token_seconds=0.0, decode_request_seconds=0.0
)


@dataclass
class Case:
    """An engine with a connector, on a clock of its own."""

    core: EngineCore
    store: DictStore
    clock: VirtualClock


def make(
    store: DictStore,
    *,
    num_blocks: int = 64,
    policy: LoadFailurePolicy = LoadFailurePolicy.RECOMPUTE,
    timeout: float = 0.05,
    scheduler: SchedulerConfig | None = None,
) -> Case:
    clock = VirtualClock()
    config = EngineConfig(
        cache=CacheConfig(block_size=BLOCK, num_kv_blocks=num_blocks),
        scheduler=scheduler
        or SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=32),
        executor=ExecutorConfig(kind=ExecutorKind.SIMULATED, simulation=STEPS),
        kv_transfer=KVTransferConfig(
            kv_connector="dict",
            kv_load_failure_policy=policy,
            kv_load_timeout_seconds=timeout,
            kv_save_timeout_seconds=timeout,
        ),
    )
    shape = ModelShape(
        architecture="Simulated",
        dtype="float32",
        vocab_size=VOCAB,
        max_model_len=64,
        num_kv_blocks=num_blocks,
        eos_token_ids=(2,),
    )

    def seconds() -> float:
        return clock.now() / NANOSECONDS

    cache = simulated_cache(config, shape, DictWorker(store, seconds))
    executor = SimulatedExecutor(STEPS, clock, shape, cache=cache)
    guard = ConnectorGuard(DictScheduler(store, BLOCK), "dict", clock=seconds)
    return Case(EngineCore(config, executor, clock, guard), store, clock)


def request(request_id: int, prompt: Sequence[int], max_tokens: int) -> EngineRequest:
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        params=SamplingParams(max_tokens=max_tokens),
        eos_token_ids=(2,),
    )


def drive(
    case: Case, source: random.Random, prompts: Sequence[list[int]]
) -> list[StepOutput]:
    """Requests come, and some go, while the engine runs; until it rests."""
    coming = [(at, prompt) for at, prompt in enumerate(prompts)]
    outputs: list[StepOutput] = []
    for _ in range(20_000):
        while coming and source.random() < 0.5:
            at, prompt = coming.pop(0)
            case.core.add(request(at, prompt, source.randint(1, 8)))
        if source.random() < 0.05 and (at := source.randrange(len(prompts))):
            case.core.finish([at], FinishReason.ABORT, "gone")
        if not case.core.has_work and not coming:
            return outputs
        if case.core.has_work:
            output = case.core.step()
            outputs.append(output)
            if output.cause == WAIT:
                case.clock.sleep(0.003)
    raise AssertionError("requests are left")


def right_tokens(prompts: Sequence[list[int]]) -> list[list[int]]:
    """Of all prompts, as they are without a connector."""
    executor = SimulatedExecutor(
        STEPS,
        VirtualClock(),
        make(DictStore()).core._executor.shape,
    )
    core = EngineCore(
        EngineConfig(cache=CacheConfig(block_size=BLOCK)), executor, VirtualClock()
    )
    tokens: dict[int, list[int]] = {}
    for at, prompt in enumerate(prompts):
        core.add(request(at, prompt, 8))
    while core.has_work:
        for event in core.step().new_tokens:
            tokens.setdefault(event.request_id, []).extend(event.token_ids)
    return [tokens[at] for at in range(len(prompts))]


def some_prompts(source: random.Random, count: int) -> list[list[int]]:
    """Some begin alike, so that blocks are shared, and found, and brought."""
    stems = [[source.randrange(3, VOCAB) for _ in range(40)] for _ in range(4)]
    return [
        [
            *source.choice(stems)[: source.randint(0, 40)],
            *(source.randrange(3, VOCAB) for _ in range(source.randint(1, 8))),
        ]
        for _ in range(count)
    ]


SHARE = st.sampled_from([0.0, 0.0, 0.1, 0.4])
FAULTS = st.builds(
    Faults,
    fails=SHARE,
    hides=SHARE,
    forgets=SHARE,
    late=SHARE,
    raises=st.sampled_from([0.0, 0.02]),
    doubles=SHARE,
)
STORES = st.builds(
    DictStore,
    is_async=st.booleans(),
    keeps=st.booleans(),
    saves_evicted=st.booleans(),
    delay_seconds=st.sampled_from([0.0, 0.004, 0.03]),
    max_blocks=st.sampled_from([1, 3, 99]),
    faults=FAULTS,
)
SCHEDULERS = st.builds(
    SchedulerConfig,
    max_num_seqs=st.sampled_from([2, 8]),
    max_num_batched_tokens=st.sampled_from([9, 64]),
    async_scheduling=st.booleans(),
)


@given(
    store=STORES,
    scheduler=SCHEDULERS,
    num_blocks=st.sampled_from([16, 24, 96]),
    policy=st.sampled_from(LoadFailurePolicy),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_wrong_and_nothing_is_left(
    store: DictStore,
    scheduler: SchedulerConfig,
    num_blocks: int,
    policy: LoadFailurePolicy,
    seed: int,
) -> None:
    """Faults, lateness, aborts, preemption: a hundred requests, three times over."""
    source = random.Random(seed)  # noqa: S311 - a test
    prompts = some_prompts(source, 40)
    right = right_tokens(prompts)
    case = make(store, num_blocks=num_blocks, policy=policy, scheduler=scheduler)
    for _ in range(2):
        outputs = drive(case, source, prompts)
        tokens: dict[int, list[int]] = {}
        for output in outputs:
            for event in output.new_tokens:
                tokens.setdefault(event.request_id, []).extend(event.token_ids)

        for at, found in tokens.items():
            assert found == right[at][: len(found)]
        stats = case.core.state("test").stats
        assert stats.residue == Residue()
        assert stats.kv_blocks_used == stats.waiting_for_remote_kv == 0
        assert stats.transfers == stats.transfers.at_rest()
        assert sum(stats.finished.values()) == stats.received
        if policy is LoadFailurePolicy.RECOMPUTE:
            assert "error" not in stats.finished
