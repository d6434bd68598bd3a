"""One rank's worker, with the plugins that its rank needs."""

from dataclasses import replace

from hookline.clock import Clock
from hookline.config.engine import EngineConfig
from hookline.config.kv_transfer import OPTION as KV_TRANSFER_OPTION
from hookline.exceptions import ConfigError
from hookline.kv_transfer.connector import WorkerConnector
from hookline.plugin_loading.connectors import load_worker_connector
from hookline.plugin_loading.extensions import load_extensions
from hookline.plugin_loading.logits_processors import check_logits_processors
from hookline.startup_timer import StartupTimer
from hookline.worker.building import build_worker
from hookline.worker.executor_context import ExecutorContext
from hookline.worker.executor_factory import RUNS_MODEL
from hookline.worker.worker import Worker
from hookline_ranks.processes.ends import RankEnd
from hookline_ranks.rank_context import DividedRankContext


def rank_config(config: EngineConfig, end: RankEnd) -> EngineConfig:
    """Returns the configuration of one rank.

    Several ranks, of one engine or of several, make the same calls of one another, so
    that none may compute with other kernels than the rest, or try them, meanwhile.
    """
    executor, parallel = config.executor, config.parallel
    if parallel.world_size > 1 or parallel.spreads_experts:
        executor = replace(executor, serve_while_compiling=False)
    parallel = replace(parallel, rank=end.rank, ranks_here=end.ranks_here)
    return replace(config, parallel=parallel, executor=executor)


def make_worker(
    config: EngineConfig, end: RankEnd, clock: Clock, timer: StartupTimer
) -> Worker:
    """Makes the worker of a rank.

    Only the output rank samples, so that logits processors are its alone.

    Raises:
        ConfigError: A plugin is unknown or broken.
    """
    connector = load_worker_connector(config)
    check_connector(config, connector)
    if end.is_output:
        check_logits_processors(config, RUNS_MODEL)
    else:
        config = replace(config, logits_processors=())
    context = ExecutorContext(
        config=config,
        clock=clock,
        timer=timer,
        connector=connector,
        extensions=load_extensions(config, is_rank=True),
    )
    return build_worker(context, DividedRankContext(config, end.parts(config)))


def check_connector(config: EngineConfig, connector: WorkerConnector | None) -> None:
    """Raises `ConfigError` if it does not work with as many ranks."""
    transfer, size = config.kv_transfer, config.parallel.world_size
    if transfer is None or connector is None or size == 1:
        return
    if not connector.capabilities.works_in_ranks:
        raise ConfigError(
            KV_TRANSFER_OPTION,
            f"{transfer.kv_connector!r} does not work with several ranks "
            "(tensor-parallel-size, pipeline-parallel-size)",
        )
    has_others = config.parallel.num_here < size
    if has_others and not connector.capabilities.works_on_machines:
        raise ConfigError(
            KV_TRANSFER_OPTION,
            f"{transfer.kv_connector!r} does not work with ranks on several machines",
        )
