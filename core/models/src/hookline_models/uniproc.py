"""The executor `uniproc`, without the imports that it needs once it is chosen."""

from importlib import import_module

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RUNS_MODEL, ExecutorFactory
from hookline.startup_timer import StartupTimer
from hookline_models.importing import import_torch
from hookline_models.threaded import ThreadedExecutor


def resolve(config: EngineConfig, timer: StartupTimer) -> EngineConfig:
    """Imports what the executor needs, and leaves out what it does not.

    Returns:
        The configuration with the defaults of the device.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks, or
            CUDA has started before this engine chose its GPU.
    """
    with timer.phase("import torch"):
        is_on_gpu = import_torch(config)
    with timer.phase("import model code"):
        import_module("hookline_models.building")
        import_module("hookline.engine.worker.uniproc")
    return config.on_gpu() if is_on_gpu else config


def create(context: ExecutorContext) -> Executor:
    """Builds the executor; on CPUs in its own thread with asynchronous scheduling."""
    from hookline.engine.worker.rank_context import SINGLE_RANK  # noqa: PLC0415
    from hookline.engine.worker.uniproc import UniprocExecutor  # noqa: PLC0415
    from hookline_models.building import build_worker  # noqa: PLC0415
    from hookline_models.machines import choosing  # noqa: PLC0415

    make_ranks, config = context.make_ranks, context.config
    ranks = SINGLE_RANK if make_ranks is None else make_ranks(config)

    def build() -> Executor:
        return UniprocExecutor(build_worker(context, ranks))

    if not config.scheduler.async_scheduling:
        return build()
    if not choosing.choose_machine(config.executor).platform.is_gpu:
        return ThreadedExecutor(build)
    return build()


UNIPROC = ExecutorFactory(create, RUNS_MODEL, resolve=resolve)
