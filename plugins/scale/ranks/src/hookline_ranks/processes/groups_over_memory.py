"""The groups of ranks of one machine, in memory that they share."""

from dataclasses import replace
from functools import partial

from hookline.config import EngineConfig
from hookline_ranks.experts.shared_experts import SharedExperts
from hookline_ranks.parallel_groups import ParallelGroups
from hookline_ranks.processes.expert_counts import ExpertCounts, counts_bytes
from hookline_ranks.processes.links import RankLinks
from hookline_ranks.processes.memory_group import SharedMemoryGroup, group_bytes
from hookline_ranks.processes.shared_memory import SharedMemory
from hookline_ranks.processes.shared_stages import SharedStages
from hookline_ranks.processes.tokens import TokenReceiver, TokenSender


def groups_over_memory(config: EngineConfig, links: RankLinks) -> ParallelGroups:
    """Attaches to what a rank shares with its groups."""
    groups = ParallelGroups(stages=_stages(config, links))
    if links.experts is not None:
        groups = replace(groups, experts=SharedExperts.of_rank(config, links.experts))
    parallel = config.parallel
    if (size := parallel.tensor_parallel_size) > 1:
        memory = SharedMemory(group_bytes(size), links.group)
        group = SharedMemoryGroup(memory, parallel.tensor_rank, size)
        groups = replace(groups, tensor=group)
    if links.expert_counts is not None:
        memory = SharedMemory(counts_bytes(links.world_size), links.expert_counts)
        count = partial(ExpertCounts(memory).add, links.rank)
        groups = replace(groups, count_expert_tokens=count)
    if size > 1 and links.after is None:
        share = (
            TokenSender(links).sharing
            if links.is_output
            else TokenReceiver(links).following
        )
        groups = replace(groups, share_samples=share)
    return groups


def _stages(config: EngineConfig, links: RankLinks) -> SharedStages | None:
    stages = config.parallel.pipeline_parallel_size
    if stages == 1:
        return None
    return SharedStages(
        links.before,
        links.after,
        rank=links.rank,
        num_slots=stages,
        max_tokens=config.scheduler.tokens_per_step,
    )
