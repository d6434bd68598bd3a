"""The executor `uniproc`, without the imports that it needs once it is chosen."""

from functools import partial
from importlib import import_module

from hookline.worker.executor import Executor
from hookline.worker.executor_factory import (
    RUNS_MODEL,
    ExecutorContext,
    ExecutorFactory,
)
from hookline.worker.threaded import ThreadedExecutor


def create(context: ExecutorContext) -> Executor:
    """Builds the executor, in its own thread with asynchronous scheduling.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    import_for(context)
    from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    if context.config.scheduler.async_scheduling:
        return ThreadedExecutor(partial(UniprocExecutor, context))
    return UniprocExecutor(context)


def import_for(context: ExecutorContext) -> None:
    """Imports what the executor needs, and leaves out what it does not.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    with context.timer.phase("import torch"):
        import_module("torch")
        from hookline.worker.instruction_set import limited_isa  # noqa: PLC0415
        from hookline.worker.unused_imports import leave_out_unused  # noqa: PLC0415

        limited_isa()  # before anything computes or compiles
        leave_out_unused(context.config.executor)
    with context.timer.phase("import model code"):
        import_module("hookline.worker.uniproc")


UNIPROC = ExecutorFactory(create, RUNS_MODEL)
