"""The executor `mp`, without the imports that it needs once it is chosen."""

import sys
from functools import partial
from typing import TYPE_CHECKING

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RUNS_MODEL, ExecutorFactory
from hookline.exceptions import ConfigError
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.lockstep_executor import counting

if TYPE_CHECKING:  # it needs torch
    from hookline.engine.worker.rank_context import RankContext


def create(context: ExecutorContext, experts: ExpertLinks | None = None) -> Executor:
    """Builds the executor, whose ranks import torch; this process does not.

    Args:
        context: What it is built from.
        experts: Links to engines that share its experts; None without any.

    Raises:
        ConfigError: The system is not Linux, or an option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        RankError: A rank has ended.
    """
    if sys.platform != "linux":
        raise ConfigError("executor", "mp requires Linux; uniproc does not")
    from hookline_ranks.processes.executor import RanksExecutor  # noqa: PLC0415
    from hookline_ranks.processes.local_ranks import LocalRanks  # noqa: PLC0415

    executor = RanksExecutor(context, partial(LocalRanks, experts=experts))
    return executor if experts is not None else counting(context.config, executor)


def _make_single_rank(config: EngineConfig) -> "RankContext":
    from hookline_ranks.single_rank import single_rank  # noqa: PLC0415

    return single_rank(config)


MP = ExecutorFactory(
    create, RUNS_MODEL, has_processes=True, make_single_rank=_make_single_rank
)
