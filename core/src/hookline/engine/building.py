"""Builds an engine core with the executor that a configuration names."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module

from hookline.clock import Clock
from hookline.config import EngineConfig, ExecutorKind
from hookline.engine.core import EngineCore
from hookline.models.description import describe
from hookline.spec_decode.control import DraftControl
from hookline.spec_decode.guard import ProposerGuard
from hookline.spec_decode.loading import load_proposer, settle_drafts
from hookline.worker.executor import Executor, ModelShape
from hookline.worker.simulated import SimulatedExecutor
from hookline.worker.startup_timer import StartupTimer
from hookline.worker.threaded import ThreadedExecutor

SIMULATED_BLOCKS = 8192


def build_core(config: EngineConfig, clock: Clock) -> EngineCore:
    """An engine core with the executor that the configuration names.

    Its facts say how long each part of the start took.
    """
    timer = StartupTimer(clock)
    with timer.phase("start engine"):
        core = EngineCore(config, build_executor(config, clock, timer), clock)
    core.facts = replace(core.facts, startup=timer.phases())
    return core


def build_executor(config: EngineConfig, clock: Clock, timer: StartupTimer) -> Executor:
    """Imports torch only if the executor needs it.

    A simulated executor needs no thread: its steps are computed when they are taken.
    The proposer comes first: what is wrong with it should not cost a model's loading.
    """
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
        return SimulatedExecutor(
            config.executor.simulation, clock, shape, guard, control
        )
    with timer.phase("import torch"):
        import_module("torch")
    with timer.phase("import model code"):
        from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    build = partial(UniprocExecutor, config, timer, proposer=proposer)
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
