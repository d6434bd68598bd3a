"""The executor `simulated`: no model, only its description."""

from collections.abc import Sequence

from hookline.config import EngineConfig
from hookline.engine.worker.executor import ExecutorContext
from hookline.engine.worker.extension import ShownCache, WorkerSide
from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline.step import ModelShape
from hookline_description.describing import describe
from hookline_simulated.config import SimulationConfig
from hookline_simulated.executor import SimulatedExecutor
from hookline_simulated.memory import SimulatedCache, SimulatedMemory
from hookline_simulated.simulation import CacheExtension, SimulatedExtension

SIMULATED_BLOCKS = 8192


def create(context: ExecutorContext) -> SimulatedExecutor:
    """Builds the executor; its steps are computed when their results are taken.

    Raises:
        ModelLoadError: The model's description is missing, damaged or incomplete.
        ConfigError: An extension cannot use the simulated cache.
    """
    config = context.config
    with context.timer.phase("read config"):
        shape = simulated_shape(config)
    cache = None
    sides = [
        each.cache_side()
        for each in context.extensions.values()
        if isinstance(each, CacheExtension)
    ]
    if sides:
        cache = simulated_cache(config, shape, sides)
    return SimulatedExecutor(
        SimulationConfig.of(config),
        context.clock,
        shape,
        cache=cache,
        extensions=[
            each.simulated(shape, context.clock)
            for each in context.extensions.values()
            if isinstance(each, SimulatedExtension)
        ],
        stages=config.parallel.pipeline_parallel_size,
    )


def simulated_shape(config: EngineConfig) -> ModelShape:
    """Reads the configured model's shape from its folder; loads no weights.

    Raises:
        ModelLoadError: The model's description is missing, damaged or incomplete.
    """
    description = describe(config.model)
    max_model_len = description.max_model_len(config.model.max_model_len)
    needed = -(-max_model_len // config.cache.block_size)
    return ModelShape(
        architecture=description.architecture,
        dtype=config.model.dtype.value,
        cache_dtype=config.cache.kv_cache_dtype.value,
        vocab_size=description.vocab_size,
        max_model_len=max_model_len,
        num_kv_blocks=config.cache.num_kv_blocks or max(SIMULATED_BLOCKS, needed),
        eos_token_ids=description.eos_token_ids,
        sampling=description.sampling,
    )


def simulated_cache(
    config: EngineConfig, shape: ModelShape, sides: Sequence[WorkerSide]
) -> SimulatedCache:
    """Builds a KV cache of plain numbers for extensions to move.

    Raises:
        ConfigError: An extension cannot use it.
    """
    memory = SimulatedMemory(shape.num_kv_blocks, config.cache.block_size)
    shown = ShownCache(
        memory=memory,
        num_blocks=shape.num_kv_blocks,
        dtype="int64",
        content=b"simulated",
    )
    for side in sides:
        side.allocated(shown)
    return SimulatedCache(memory, sides)


SIMULATED = ExecutorFactory(create)
