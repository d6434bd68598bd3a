"""The executor `ray`: each rank of an engine is an actor on a Ray cluster."""

import sys
from dataclasses import replace

from hookline.config import Device, EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import RUNS_MODEL, ExecutorFactory
from hookline.exceptions import ConfigError
from hookline_ray.addresses import given_address

_OPTION = "executor"


def create(context: ExecutorContext) -> Executor:
    """Builds the executor, whose ranks import torch; this process does not.

    Raises:
        ConfigError: The system is not Linux, or an option does not fit.
        EngineDeadError: The cluster cannot be reached.
        ModelLoadError: The model cannot be loaded or served.
        RankError: A rank has no place, or has ended.
    """
    config = context.config
    _check(config)
    from hookline_cluster.ranks.connected_ranks import ConnectedRanks  # noqa: PLC0415
    from hookline_ranks.experts.lockstep_executor import counting  # noqa: PLC0415
    from hookline_ranks.processes.executor import RanksExecutor  # noqa: PLC0415
    from hookline_ray.rank_nodes import RayRankNodes  # noqa: PLC0415

    options = replace(
        config.executor, device=Device.CPU, threads=config.executor.threads or 1
    )
    placed = replace(context, config=replace(config, executor=options))
    executor = RanksExecutor(
        placed, lambda given: ConnectedRanks(given, RayRankNodes(given))
    )
    return counting(config, executor)


RAY = ExecutorFactory(create, RUNS_MODEL, has_processes=True)


def _check(config: EngineConfig) -> None:
    """Raises `ConfigError` for an option that does not fit ranks on a cluster."""
    if sys.platform != "linux":
        raise ConfigError(_OPTION, "ray requires Linux")
    if config.executor.device is Device.CUDA:
        raise ConfigError(_OPTION, "ray places ranks by CPUs, not on device cuda")
    engines = len(config.engine_indices)
    if engines > 1 and given_address(config) is None:
        raise ConfigError(
            "ray-address",
            f"is required for {engines} engines with the executor ray: each would "
            "start a cluster of its own",
        )
