"""The groups of ranks of several machines, over gloo."""

from collections.abc import Callable
from dataclasses import replace

from torch._C._distributed_c10d import Store

from hookline.config import EngineConfig
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline_ranks.experts.whole_experts import CountTokens
from hookline_ranks.parallel_groups import ParallelGroups
from hookline_ranks.processes.gloo import meet
from hookline_ranks.processes.gloo_group import GlooGroup
from hookline_ranks.processes.gloo_stages import GlooStages
from hookline_ranks.shared_samples import FollowingSampler, SharingSampler


def groups_over_gloo(
    config: EngineConfig,
    store: Store,
    *,
    address: str,
    count_expert_tokens: CountTokens,
) -> ParallelGroups:
    """Meets the other ranks of an engine; returns once all have met.

    Args:
        config: The rank's configuration.
        store: Where the ranks find each other.
        address: Numeric address of this machine, at which gloo listens.
        count_expert_tokens: Counts what this rank's experts compute.

    Raises:
        RankError: Other ranks do not come.
    """
    parallel = config.parallel
    size, stages = parallel.tensor_parallel_size, parallel.pipeline_parallel_size
    groups = ParallelGroups(count_expert_tokens=count_expert_tokens)
    if size > 1:
        name = f"stage {parallel.stage}"
        sharers = meet(store, name, parallel.tensor_rank, size, address=address)
        group = GlooGroup(sharers, parallel.rank)
        groups = replace(groups, tensor=group)
        if parallel.stage == stages - 1:
            groups = replace(groups, share_samples=_sharing(group))
    if stages > 1:
        everyone = meet(
            store, "all", parallel.rank, parallel.world_size, address=address
        )
        links = GlooStages(everyone, stride=size, num_slots=stages)
        groups = replace(groups, stages=links)
    return groups


def _sharing(group: GlooGroup) -> Callable[[StepSampler], StepSampler]:
    def share(sampler: StepSampler) -> StepSampler:
        if group.rank == 0:
            return SharingSampler(sampler, group.send_tokens)
        return FollowingSampler(group.receive_tokens)

    return share
