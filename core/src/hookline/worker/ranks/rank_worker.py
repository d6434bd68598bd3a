"""One rank's worker, with the plugins that its rank needs."""

from dataclasses import replace
from functools import partial

from hookline.clock import Clock
from hookline.config import EngineConfig
from hookline.config.kv_transfer import OPTION as KV_TRANSFER_OPTION
from hookline.exceptions import ConfigError
from hookline.kv_transfer.connector import WorkerConnector
from hookline.plugin_loading.connectors import load_worker_connector
from hookline.plugin_loading.logits_processors import check_logits_processors
from hookline.plugin_loading.proposers import load_proposer, settle_drafts
from hookline.spec_decode.proposer import needs_hidden_states
from hookline.spec_decode.tree import tree_of
from hookline.worker.executor_factory import RUNS_MODEL, ExecutorContext
from hookline.worker.rank_parts import ALONE, RankParts
from hookline.worker.ranks.expert_counts import ExpertCounts, counts_bytes
from hookline.worker.ranks.grammars import RankGrammars
from hookline.worker.ranks.links import RankLinks
from hookline.worker.ranks.memory_group import SharedMemoryGroup, group_bytes
from hookline.worker.ranks.shared_memory import SharedMemory
from hookline.worker.ranks.shared_stages import SharedStages
from hookline.worker.ranks.tokens import TokenReceiver, TokenSender
from hookline.worker.startup_timer import StartupTimer
from hookline.worker.worker import Worker


def rank_config(config: EngineConfig, rank: int) -> EngineConfig:
    """Returns the configuration of one rank.

    Several ranks make the same calls of one another, so that none may compute with
    other kernels than the rest meanwhile.
    """
    executor = config.executor
    if config.parallel.world_size > 1:
        executor = replace(executor, serve_while_compiling=False)
    parallel = replace(config.parallel, rank=rank)
    return replace(config, parallel=parallel, executor=executor)


def make_worker(
    config: EngineConfig,
    links: RankLinks,
    clock: Clock,
    timer: StartupTimer,
    grammars: RankGrammars | None,
) -> Worker:
    """Makes the worker of a rank.

    Only the output rank drafts and samples, so that plugins that do so are its alone.
    The others know the shape of its drafts.

    Raises:
        ConfigError: A plugin is unknown or broken.
    """
    connector = load_worker_connector(config)
    check_connector(config, connector)
    proposer = load_proposer(config, RUNS_MODEL)
    config = settle_drafts(config, proposer)
    looks_inside = proposer is not None and needs_hidden_states(proposer)
    ranks = replace(_parts(config, links), replays_steps=not looks_inside)
    if links.is_output:
        check_logits_processors(config, RUNS_MODEL)
    else:
        ranks = replace(ranks, draft_tree=tree_of(proposer))
        config, proposer = replace(config, logits_processors=()), None
    context = ExecutorContext(
        config=config,
        clock=clock,
        timer=timer,
        proposer=proposer,
        connector=connector,
        matchers=grammars,
    )
    return Worker(context, ranks)


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


def _parts(config: EngineConfig, links: RankLinks) -> RankParts:
    """Attaches to what this rank shares with others."""
    if links.world_size == 1:
        return ALONE
    parts = RankParts(stages=_stages(config, links))
    parallel = config.parallel
    if (size := parallel.tensor_parallel_size) > 1:
        memory = SharedMemory(group_bytes(size), links.group)
        group = SharedMemoryGroup(memory, parallel.tensor_rank, size)
        parts = replace(parts, group=group)
    if links.expert_counts is not None:
        memory = SharedMemory(counts_bytes(links.world_size), links.expert_counts)
        count = partial(ExpertCounts(memory).add, links.rank)
        parts = replace(parts, count_expert_tokens=count)
    if size > 1 and links.after is None:
        share = (
            TokenSender(links).sharing
            if links.is_output
            else TokenReceiver(links).following
        )
        parts = replace(parts, share_samples=share)
    return parts


def _stages(config: EngineConfig, links: RankLinks) -> SharedStages | None:
    stages = config.parallel.pipeline_parallel_size
    if stages == 1:
        return None
    return SharedStages(
        links.before,
        links.after,
        rank=links.rank,
        num_slots=stages,
        max_tokens=config.scheduler.max_num_batched_tokens,
    )
