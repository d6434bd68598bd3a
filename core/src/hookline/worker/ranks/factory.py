"""The executor `mp`, without the imports that it needs once it is chosen."""

import sys
from functools import partial

from hookline.exceptions import ConfigError
from hookline.worker.executor import Executor
from hookline.worker.executor_factory import (
    RUNS_MODEL,
    ExecutorContext,
    ExecutorFactory,
)


def create(context: ExecutorContext) -> Executor:
    """Builds the executor, whose ranks import torch; this process does not.

    Raises:
        ConfigError: The system is not Linux, or an option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        RankError: A rank has ended.
    """
    if sys.platform != "linux":
        raise ConfigError("executor", "mp requires Linux; uniproc does not")
    from hookline.worker.ranks.executor import RanksExecutor  # noqa: PLC0415
    from hookline.worker.ranks.local_ranks import LocalRanks  # noqa: PLC0415

    return RanksExecutor(context, partial(LocalRanks, experts=context.experts))


MP = ExecutorFactory(create, RUNS_MODEL, has_processes=True)
