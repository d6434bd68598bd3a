"""Builds a worker that loads model files, on the machine that a configuration names."""

from hookline.worker.executor import ExecutorContext
from hookline.worker.loading.loader import load
from hookline.worker.loading.logits_processors import logits_processors
from hookline.worker.machines.choosing import init_device
from hookline.worker.rank_context import SINGLE_RANK, RankContext
from hookline.worker.worker import Worker, WorkerSetup


def build_worker(context: ExecutorContext, ranks: RankContext = SINGLE_RANK) -> Worker:
    """Returns a worker before its first phase.

    Args:
        context: The engine's configuration and parts.
        ranks: What the worker has of other ranks: of other engines', or in trials.
    """
    return Worker(context, WorkerSetup(init_device, load, logits_processors), ranks)
