"""The context of one rank on its own, for the trial that compiles its kernels.

It computes what it would compute among the others, with kernels of its own sizes, and
further ones that ranks sum by.
"""

from dataclasses import replace

from hookline.config import EngineConfig
from hookline_kernels import import_compiled
from hookline_ranks.experts.expert_placement import ExpertPlace
from hookline_ranks.experts.single_rank_experts import SingleRankExperts
from hookline_ranks.parallel_groups import ParallelGroups
from hookline_ranks.rank_context import DividedRankContext
from hookline_ranks.sharding.single_rank_group import SingleRankGroup


def single_rank(config: EngineConfig) -> DividedRankContext:
    """Compiles what ranks exchange by, and returns the context of one.

    Raises:
        KernelError: No compiler is installed.
    """
    parallel, groups = config.parallel, ParallelGroups()
    size, engines = parallel.tensor_parallel_size, len(config.engine_indices)
    if size > 1:
        exchange = import_compiled("hookline_kernels.cpu.rank_exchange")
        exchange.compile_for_ranks()
        groups = replace(groups, tensor=SingleRankGroup(size))
    if config.spreads_experts:
        meeting = import_compiled("hookline_kernels.cpu.rank_meeting")
        meeting.meeting_kernel()
        place = ExpertPlace(rank=0, size=size * engines, engines=engines)
        groups = replace(groups, experts=SingleRankExperts(place))
    return DividedRankContext(config, groups)
