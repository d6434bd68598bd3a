"""One rank's worker, with the plugins that its rank needs."""

from dataclasses import replace

from hookline.clock import Clock
from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import ExecutorContext
from hookline.engine.worker.worker import Worker
from hookline.engine_setup.executor_factory import RUNS_MODEL
from hookline.plugin_loading.extensions import load_extensions
from hookline.plugin_loading.logits_processors import check_logits_processors
from hookline.startup_timer import StartupTimer
from hookline_models.building import build_worker
from hookline_ranks.processes.ends import RankEnd
from hookline_ranks.rank_context import DividedRankContext


def rank_config(config: EngineConfig, end: RankEnd) -> EngineConfig:
    """Returns the configuration of one rank."""
    parallel = replace(config.parallel, rank=end.rank, ranks_here=end.ranks_here)
    return replace(config, parallel=parallel)


def make_worker(
    config: EngineConfig, end: RankEnd, clock: Clock, timer: StartupTimer
) -> Worker:
    """Makes the worker of a rank.

    Only the output rank samples, so that logits processors are its alone.

    Raises:
        ConfigError: A plugin is unknown or broken.
    """
    if end.is_output:
        check_logits_processors(config, RUNS_MODEL)
    else:
        config = replace(config, logits_processors=())
    context = ExecutorContext(
        config=config,
        clock=clock,
        timer=timer,
        extensions=load_extensions(config, is_rank=True),
    )
    return build_worker(context, DividedRankContext(config, end.join_groups(config)))
