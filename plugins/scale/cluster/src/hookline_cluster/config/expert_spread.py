"""What cannot be combined with experts that are spread over several engines."""

from hookline.config.engine import EngineConfig
from hookline.config.parallel import MOST_RANKS
from hookline.exceptions import ConfigError
from hookline_cluster.config.machines import MachinesConfig

_OPTION = "enable-expert-parallel"
_EXECUTORS = ("uniproc", "mp")
"""Executors whose ranks can compute for other engines."""


def check_processes(config: EngineConfig) -> None:
    """Checks engines that are to run in the front end's process.

    Raises:
        ConfigError: They share experts.
    """
    if config.spreads_experts:
        raise ConfigError(
            _OPTION,
            f"with data-parallel-size {len(config.engine_indices)} cannot be combined "
            "with in-process: engines that share experts compute at the same time, in "
            "processes of their own",
        )


def check_expert_spread(
    config: EngineConfig,
    machines: MachinesConfig,
    num_engines: int,
    *,
    has_autoscale: bool,
) -> None:
    """Checks the options of engines that share experts, if they do.

    Raises:
        ConfigError: An option cannot be combined with it.
    """
    if not config.parallel.enable_expert_parallel:
        return
    if has_autoscale:
        raise ConfigError(
            "autoscale",
            f"cannot be combined with {_OPTION}: engines that share experts cannot "
            "come and go",
        )
    if num_engines > 1 and (found := _obstacles(config, machines, num_engines)):
        raise ConfigError(_OPTION, found[0])


def _obstacles(
    config: EngineConfig, machines: MachinesConfig, num_engines: int
) -> list[str]:
    """Why the engines cannot share their experts."""
    parallel, found = config.parallel, list[str]()
    several = f"with data-parallel-size {num_engines} "
    if parallel.pipeline_parallel_size > 1:
        found.append(f"{several}cannot be combined with pipeline-parallel-size")
    if machines.is_one_of_many:
        found.append(
            f"{several}cannot be combined with {machines.mode}: engines of several "
            "servers do not share experts"
        )
    if machines.is_placed or machines.size_local is not None or machines.start_rank:
        found.append(
            f"{several}cannot be combined with data-parallel-size-local, "
            "data-parallel-start-rank and data-parallel-backend ray: all engines that "
            "share experts run on this machine"
        )
    if config.executor_name not in _EXECUTORS:
        found.append(
            f"{several}requires the executor uniproc or mp, not {config.executor_name}"
        )
    ranks = num_engines * parallel.tensor_parallel_size
    if ranks > MOST_RANKS:
        found.append(
            "data-parallel-size times tensor-parallel-size must be at most "
            f"{MOST_RANKS}, not {ranks}"
        )
    return found
