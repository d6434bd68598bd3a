"""The executor `uniproc`, without the imports that it needs once it is chosen."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module

from hookline.worker.executor import Executor
from hookline.worker.executor_factory import (
    RUNS_MODEL,
    ExecutorContext,
    ExecutorFactory,
)
from hookline.worker.experts.links import ExpertLinks
from hookline.worker.importing import import_torch
from hookline.worker.threaded import ThreadedExecutor


def create(context: ExecutorContext) -> Executor:
    """Builds the executor, in its own thread with asynchronous scheduling.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    import_for(context)
    from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    build: Callable[[], Executor] = partial(UniprocExecutor, context)
    if context.experts is not None:
        build = _with_shared_experts(context, context.experts)
    if context.config.scheduler.async_scheduling:
        return ThreadedExecutor(build)
    return build()


def _with_shared_experts(
    context: ExecutorContext, links: ExpertLinks
) -> Callable[[], Executor]:
    """Makes the engine's only rank one of those that share the experts."""
    from hookline.worker.experts.shared_experts import SharedExperts  # noqa: PLC0415
    from hookline.worker.rank_parts import RankParts  # noqa: PLC0415
    from hookline.worker.uniproc import UniprocExecutor  # noqa: PLC0415

    # Kernels that are tried while it serves would call the other engines.
    executor = replace(context.config.executor, serve_while_compiling=False)
    config = replace(context.config, executor=executor)
    ranks = RankParts(experts=SharedExperts.of_rank(config, links))
    return partial(UniprocExecutor, replace(context, config=config), ranks)


def import_for(context: ExecutorContext) -> None:
    """Imports what the executor needs, and leaves out what it does not.

    Raises:
        ConfigError: The environment asks for instructions that this machine lacks.
    """
    with context.timer.phase("import torch"):
        import_torch(context.config.executor)
    with context.timer.phase("import model code"):
        import_module("hookline.worker.uniproc")


UNIPROC = ExecutorFactory(create, RUNS_MODEL)
