"""Builds a worker that loads model files, on the machine that a configuration names."""

from functools import partial
from typing import cast

from hookline.engine.worker.executor import ExecutorContext
from hookline.engine.worker.rank_context import SINGLE_RANK, RankContext
from hookline.engine.worker.worker import Worker, WorkerSetup
from hookline.plugins.calling import hook_of
from hookline.plugins.kinds import BACKGROUND_COMPILER
from hookline_models.forwards.first_forward import StartForward, final_forward
from hookline_models.loading.loader import load
from hookline_models.logits_processors import logits_processors
from hookline_models.machines.choosing import init_device
from hookline_registry import UnknownPluginError

_COMPILER = "background_compiling"


def build_worker(context: ExecutorContext, ranks: RankContext = SINGLE_RANK) -> Worker:
    """Returns a worker before its first phase.

    Args:
        context: The engine's configuration and parts.
        ranks: What the worker has of other ranks: of other engines', or in trials.
    """
    load_model = partial(load, first_forward=_first_forward())
    return Worker(
        context, WorkerSetup(init_device, load_model, logits_processors), ranks
    )


def _first_forward() -> StartForward:
    """Returns what is installed, or what compiles kernels before the first step."""
    try:
        return cast("StartForward", hook_of(BACKGROUND_COMPILER, _COMPILER)())
    except UnknownPluginError:
        return final_forward
