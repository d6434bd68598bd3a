"""What cannot be combined with experts that are spread over several engines."""

from typing import Protocol

from hookline.config.machines import MachinesConfig
from hookline.config.parallel import MOST_RANKS, ParallelConfig
from hookline.exceptions import ConfigError

OPTION = "enable-expert-parallel"
_EXECUTORS = ("uniproc", "mp")
"""Executors whose ranks can compute for other engines."""


class _Config(Protocol):
    """The part of an engine's configuration that is looked at."""

    @property
    def executor_name(self) -> str: ...
    @property
    def parallel(self) -> ParallelConfig: ...
    @property
    def machines(self) -> MachinesConfig: ...


def check_processes(parallel: ParallelConfig) -> None:
    """Checks engines that are to run in the front end's process.

    Raises:
        ConfigError: They share experts.
    """
    if parallel.spreads_experts:
        raise ConfigError(
            OPTION,
            f"with data-parallel-size {parallel.data_parallel_size} cannot be combined "
            "with in-process: engines that share experts compute at the same time, in "
            "processes of their own",
        )


def check_expert_spread(config: _Config) -> None:
    """Checks the options of engines that share experts, if they do.

    Raises:
        ConfigError: An option cannot be combined with it.
    """
    parallel = config.parallel
    if parallel.enable_expert_parallel and parallel.autoscale is not None:
        raise ConfigError(
            "autoscale",
            f"cannot be combined with {OPTION}: engines that share experts cannot come "
            "and go",
        )
    if parallel.spreads_experts and (obstacles := _obstacles(config)):
        raise ConfigError(OPTION, obstacles[0])


def _obstacles(config: _Config) -> list[str]:
    """Why the engines cannot share their experts."""
    parallel, machines, found = config.parallel, config.machines, list[str]()
    several = f"with data-parallel-size {parallel.data_parallel_size} "
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
    ranks = parallel.data_parallel_size * parallel.tensor_parallel_size
    if ranks > MOST_RANKS:
        found.append(
            "data-parallel-size times tensor-parallel-size must be at most "
            f"{MOST_RANKS}, not {ranks}"
        )
    return found
