"""The executor `uniproc`, without the imports that it needs once it is chosen."""

from importlib import import_module

from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RUNS_MODEL, ExecutorFactory
from hookline_models.importing import import_torch
from hookline_models.threaded import ThreadedExecutor


def create(context: ExecutorContext) -> Executor:
    """Builds the executor; on CPUs in its own thread with asynchronous scheduling.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    import_for(context)
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


def import_for(context: ExecutorContext) -> None:
    """Imports what the executor needs, and leaves out what it does not.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    with context.timer.phase("import torch"):
        import_torch(context.config)
    with context.timer.phase("import model code"):
        import_module("hookline_models.building")
        import_module("hookline.engine.worker.uniproc")


UNIPROC = ExecutorFactory(create, RUNS_MODEL)
