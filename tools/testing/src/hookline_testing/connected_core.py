"""A whole engine core without a model, with a connector, on a clock of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ExecutorKind,
    SchedulerConfig,
    SimulationConfig,
)
from hookline.config.kv_events import KVEventsConfig
from hookline.config.kv_transfer import KVTransferConfig
from hookline.core.building import simulated_cache
from hookline.core.engine_core import WAIT, EngineCore
from hookline.events import StepOutput
from hookline.kv_transfer.connector import SchedulerConnector, WorkerConnector
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.step.model_shape import ModelShape
from hookline.worker.simulated.executor import SimulatedExecutor
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
    """Makes the two sides of a connector."""

    def __call__(
        self, store: DictStore, clock: VirtualClock
    ) -> tuple[SchedulerConnector, WorkerConnector]: ...


def dict_sides(
    store: DictStore, clock: VirtualClock
) -> tuple[SchedulerConnector, WorkerConnector]:
    """Of the connector over a dictionary."""

    def seconds() -> float:
        return clock.now() / NANOSECONDS

    return DictScheduler(store, BLOCK), DictWorker(store, seconds)


@dataclass
class ConnectedCore:
    """The core, and the clock that it runs by."""

    core: EngineCore
    clock: VirtualClock

    def step(self) -> StepOutput:
        """One step; time passes while everything waits."""
        output = self.core.step()
        if output.cause == WAIT:
            self.clock.sleep(0.003)
        return output

    def run(self, most_steps: int = 20_000) -> list[StepOutput]:
        """Steps until it rests.

        Raises:
            RuntimeError: It does not.
        """
        outputs: list[StepOutput] = []
        for _ in range(most_steps):
            if not self.core.has_work:
                return outputs
            outputs.append(self.step())
        raise RuntimeError(f"there is work left after {most_steps} steps")


def connected_core(
    store: DictStore,
    *,
    sides: Sides = dict_sides,
    num_blocks: int = 64,
    transfer: KVTransferConfig = SHORT,
    scheduler: SchedulerConfig | None = None,
    follows_cache: bool = False,
) -> ConnectedCore:
    """An engine core whose KV a connector moves.

    Args:
        store: Of the connector.
        sides: Makes it.
        num_blocks: Of the cache, `BLOCK` tokens each.
        transfer: How it may load and save.
        scheduler: The defaults, for few requests, if None.
        follows_cache: Whether outputs tell changes of the prefix cache.
    """
    clock = VirtualClock()
    config = EngineConfig(
        cache=CacheConfig(block_size=BLOCK, num_kv_blocks=num_blocks),
        scheduler=scheduler
        or SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=32),
        executor=ExecutorConfig(kind=ExecutorKind.SIMULATED, simulation=STEPS),
        kv_transfer=transfer,
        kv_events=KVEventsConfig(enable_kv_cache_events=follows_cache),
    )
    shape = ModelShape(
        architecture="Simulated",
        dtype="float32",
        vocab_size=VOCAB_SIZE,
        max_model_len=64,
        num_kv_blocks=num_blocks,
        eos_token_ids=(EOS,),
    )
    for_scheduler, for_worker = sides(store, clock)
    cache = simulated_cache(config, shape, for_worker)
    executor = SimulatedExecutor(STEPS, clock, shape, cache=cache)
    assert executor.shape.kv_layout is not None
    for_scheduler.register_kv_layout(executor.shape.kv_layout)
    guard = ConnectorGuard(
        for_scheduler, "dict", clock=lambda: clock.now() / NANOSECONDS
    )
    return ConnectedCore(EngineCore(config, executor, clock, guard), clock)


def tokens_by_request(outputs: Sequence[StepOutput]) -> dict[int, list[int]]:
    """All tokens that the outputs brought."""
    tokens: dict[int, list[int]] = {}
    for output in outputs:
        for event in output.new_tokens:
            tokens.setdefault(event.request_id, []).extend(event.token_ids)
    return tokens
