"""An engine core with a KV connector, without a model, on a virtual clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ParallelConfig,
    SchedulerConfig,
)
from hookline.config.extensions import KV_TRANSFER
from hookline.engine.engine_core import WAIT, EngineCore
from hookline.engine_setup.engine_facts import engine_facts
from hookline.engine_setup.making import make_scheduler_parts
from hookline.events import StepOutput
from hookline.step import ModelShape
from hookline_kv_transfer.config import KVTransferConfig
from hookline_kv_transfer.connector import SchedulerConnector, WorkerConnector
from hookline_kv_transfer.transfers import Transfers
from hookline_kv_transfer.worker_side import TransferWorker
from hookline_metrics.transfer_stats import TRANSFER_NEWS, TransferNews
from hookline_simulated.config import SimulationConfig
from hookline_simulated.executor import SimulatedExecutor
from hookline_simulated.factory import simulated_cache
from hookline_testing.connectors import DictScheduler, DictStore, DictWorker

BLOCK = 4
EOS = 2
VOCAB_SIZE = 1000
STEPS = SimulationConfig(
    step_seconds=0.01, prefill_token_seconds=0.0, decode_request_seconds=0.0
)
SHORT = KVTransferConfig(
    kv_connector="dict", kv_load_timeout_seconds=0.05, kv_save_timeout_seconds=0.05
)


class Sides(Protocol):
    """Creates the two sides of a connector."""

    def __call__(
        self, store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]: ...


def dict_sides(
    store: DictStore, clock: VirtualClock
) -> tuple[SchedulerConnector, WorkerConnector]:
    """Creates a connector that stores KV in a dictionary."""

    def seconds() -> float:
        return clock.now() / NANOSECONDS

    return DictScheduler(store, BLOCK), DictWorker(store, seconds)


@dataclass
class ConnectedCore:
    """An engine core and its virtual clock.

    Attributes:
        core: The engine core.
        clock: Its clock.
        transfers: The scheduler's side of its connector.
        num_turns: Steps so far, those included that only polled transfers.
    """

    core: EngineCore
    clock: VirtualClock
    transfers: Transfers
    num_turns: int = 0

    def step(self) -> StepOutput:
        """Runs one step; while all work awaits transfers, time passes."""
        self.num_turns += 1
        output = self.core.step()
        if output.cause == WAIT:
            self.clock.sleep(0.003)
        return output

    def run(self, most_steps: int = 20_000) -> list[StepOutput]:
        """Steps until no work is left; drops `WAIT` outputs, as the engine loop does.

        Raises:
            RuntimeError: There is work left after `most_steps`.
        """
        outputs: list[StepOutput] = []
        for _ in range(most_steps):
            if not self.core.has_work:
                return outputs
            if (output := self.step()).cause != WAIT:
                outputs.append(output)
        raise RuntimeError(f"there is work left after {most_steps} steps")


def connected_core(
    store: DictStore,
    *,
    sides: Sides = dict_sides,
    num_blocks: int = 64,
    transfer: KVTransferConfig = SHORT,
    scheduler: SchedulerConfig | None = None,
    follows_cache: bool = False,
    residency_sample: float = 0.0,
    stages: int = 1,
) -> ConnectedCore:
    """Builds a simulated engine core with a KV connector.

    Args:
        store: Where the connector keeps KV.
        sides: Makes the connector's two sides.
        num_blocks: Size of the KV cache, in blocks of `BLOCK` tokens.
        transfer: Deadlines and policies of transfers.
        scheduler: None means the defaults, with at most 8 requests in the batch.
        follows_cache: Whether outputs list changes of the prefix cache.
        residency_sample: Share of KV blocks whose evictions are measured.
        stages: Number of pipeline stages.
    """
    clock = VirtualClock()
    config = EngineConfig(
        cache=CacheConfig(
            block_size=BLOCK,
            num_kv_blocks=num_blocks,
            residency_sample=residency_sample,
        ),
        scheduler=scheduler
        or SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=32),
        executor=ExecutorConfig(name="simulated"),
        parallel=ParallelConfig(pipeline_parallel_size=stages),
        follows_cache=follows_cache,
        sections={"simulated": STEPS},
    )
    shape = ModelShape(
        architecture="Simulated",
        dtype="float32",
        cache_dtype="float32",
        vocab_size=VOCAB_SIZE,
        max_model_len=64,
        num_kv_blocks=num_blocks,
        eos_token_ids=(EOS,),
    )
    for_scheduler, for_worker = sides(store, clock)
    worker = TransferWorker(for_worker, config, transfer)
    cache = simulated_cache(config, shape, [worker])
    executor = SimulatedExecutor(STEPS, clock, shape, cache=cache, stages=stages)
    transfers = Transfers(
        transfer, for_scheduler, clock=lambda: clock.now() / NANOSECONDS
    )
    extensions = {KV_TRANSFER: transfers}
    parts = make_scheduler_parts(config, shape, clock, extensions)
    core = EngineCore(config, executor, clock, engine_facts(config, shape), parts)
    return ConnectedCore(core, clock, transfers)


def news_of(output: StepOutput) -> TransferNews:
    """Returns what an output tells of transfers."""
    return TRANSFER_NEWS.read(output.sections) or TransferNews()


def tokens_by_request(outputs: Sequence[StepOutput]) -> dict[int, list[int]]:
    """Collects each request's new tokens from outputs."""
    tokens: dict[int, list[int]] = {}
    for output in outputs:
        for event in output.events.new_tokens:
            tokens.setdefault(event.request_id, []).extend(event.token_ids)
    return tokens
