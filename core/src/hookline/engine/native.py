"""Hookline's own engine, behind the entry point `native` of `hookline.engines`."""

from hookline.clock import Clock, SystemClock
from hookline.config import EngineConfig, ExecutorKind
from hookline.engine.client import EngineClient
from hookline.engine.core import EngineCore
from hookline.engine.inproc import InprocClient
from hookline.models.description import describe
from hookline.worker.executor import Executor, ModelShape
from hookline.worker.simulated import SimulatedExecutor

SIMULATED_BLOCKS = 8192


def connect(config: EngineConfig) -> EngineClient:
    """Starts an engine, here or in a process of its own, and waits until it is ready.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
    """
    if config.in_process:
        core = build_core(config, SystemClock())
        return InprocClient(core, config.observers.heartbeat_seconds)
    from hookline.engine.process_client import ProcessClient  # noqa: PLC0415

    return ProcessClient(config)


def build_core(config: EngineConfig, clock: Clock) -> EngineCore:
    """An engine core with the executor that the configuration names."""
    return EngineCore(config, build_executor(config, clock), clock)


def build_executor(config: EngineConfig, clock: Clock) -> Executor:
    """Imports torch only if the executor needs it."""
    if config.executor.kind is ExecutorKind.SIMULATED:
        return SimulatedExecutor(
            config.executor.simulation, clock, simulated_shape(config)
        )
    from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    return UniprocExecutor(config)


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
