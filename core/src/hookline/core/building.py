"""Builds an engine core with the executor that a configuration names."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module

from hookline.clock import Clock
from hookline.config import EngineConfig, ExecutorKind
from hookline.core.engine_core import EngineCore
from hookline.kv_transfer.connector import SchedulerConnector, WorkerConnector
from hookline.kv_transfer.guard import ConnectorGuard
from hookline.models.description import describe
from hookline.plugin_loading.connectors import (
    load_scheduler_connector,
    load_worker_connector,
    show_layout,
)
from hookline.plugin_loading.proposers import load_proposer, settle_drafts
from hookline.step.model_shape import ModelShape
from hookline.worker.drafting.control import DraftControl
from hookline.worker.drafting.guard import ProposerGuard
from hookline.worker.executor import Executor
from hookline.worker.simulated.executor import SimulatedExecutor
from hookline.worker.simulated.memory import SimulatedCache, SimulatedMemory
from hookline.worker.startup_timer import StartupTimer
from hookline.worker.threaded import ThreadedExecutor
from hookline.worker.transfers.connecting import connect

SIMULATED_BLOCKS = 8192


def build_core(config: EngineConfig, clock: Clock) -> EngineCore:
    """An engine core with the executor that the configuration names.

    Its facts say how long each part of the start took.
    """
    timer = StartupTimer(clock)
    with timer.phase("start engine"):
        connector = load_scheduler_connector(config)
        executor = build_executor(config, clock, timer)
        core = EngineCore(config, executor, clock, guarded(config, connector, executor))
    core.facts = replace(core.facts, startup=timer.phases())
    return core


def guarded(
    config: EngineConfig, connector: SchedulerConnector | None, executor: Executor
) -> ConnectorGuard | None:
    """The scheduler's side of a connector, once it has been told of the blocks.

    Raises:
        ConfigError: It cannot use them.
    """
    layout = executor.shape.kv_layout
    if connector is None or config.kv_transfer is None or layout is None:
        return None
    show_layout(connector, config, layout)
    return ConnectorGuard(connector, config.kv_transfer.kv_connector)


def build_executor(config: EngineConfig, clock: Clock, timer: StartupTimer) -> Executor:
    """Imports torch only if the executor needs it.

    A simulated executor needs no thread: its steps are computed when they are taken.
    Plugins come first: what is wrong with them should not cost a model's loading.
    """
    connector = load_worker_connector(config)
    with timer.phase("load proposer") if config.speculative else nullcontext():
        proposer = load_proposer(config)
        config = settle_drafts(config, proposer)
    if config.executor.kind is ExecutorKind.SIMULATED:
        with timer.phase("read config"):
            shape = simulated_shape(config)
        guard = control = None
        if proposer is not None and config.speculative is not None:
            guard = ProposerGuard(
                proposer, config.speculative, vocab_size=shape.vocab_size
            )
            control = DraftControl.of(config.speculative)
        cache = None if connector is None else simulated_cache(config, shape, connector)
        return SimulatedExecutor(
            config.executor.simulation, clock, shape, guard, control, cache=cache
        )
    with timer.phase("import torch"):
        import_module("torch")
    with timer.phase("import model code"):
        from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    build = partial(
        UniprocExecutor, config, timer, proposer=proposer, connector=connector
    )
    return ThreadedExecutor(build) if config.scheduler.async_scheduling else build()


def simulated_shape(config: EngineConfig) -> ModelShape:
    """The shape of the configured model, read from its folder alone."""
    description = describe(config.model)
    max_model_len = description.max_model_len(config.model.max_model_len)
    needed = -(-max_model_len // config.cache.block_size)
    return ModelShape(
        architecture=description.architecture,
        dtype=config.model.dtype,
        vocab_size=description.vocab_size,
        max_model_len=max_model_len,
        num_kv_blocks=config.cache.num_kv_blocks or max(SIMULATED_BLOCKS, needed),
        eos_token_ids=description.eos_token_ids,
    )


def simulated_cache(
    config: EngineConfig, shape: ModelShape, connector: WorkerConnector
) -> SimulatedCache:
    """A cache without a model, for a connector.

    Raises:
        ConfigError: The connector cannot use it.
    """
    memory = SimulatedMemory(shape.num_kv_blocks, config.cache.block_size)
    transferring = connect(
        connector,
        config,
        [memory],
        num_blocks=shape.num_kv_blocks,
        dtype="int64",
        content=b"simulated",
    )
    return SimulatedCache(memory, transferring)
