"""Executors of engines that share experts with others."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Executor, ExecutorContext
from hookline.engine_setup.executor_factory import ExecutorFactory
from hookline_models.threaded import AssistingExecutor
from hookline_ranks.experts.links import ExpertLinks
from hookline_ranks.experts.lockstep import Lockstep
from hookline_ranks.experts.lockstep_executor import LockstepExecutor
from hookline_ranks.factory import create

if TYPE_CHECKING:  # it needs torch
    from hookline.engine.worker.rank_context import RankContext


def share_experts(links: ExpertLinks, factory: ExecutorFactory) -> ExecutorFactory:
    """Returns what `keep_step` does, which waits until others have loaded their models.

    Args:
        links: The engine's links to engines that share its experts.
        factory: Makes the executor `uniproc` or `mp`.
    """
    return replace(factory, create=partial(_create_with_others, links, factory))


def _create_with_others(
    links: ExpertLinks, factory: ExecutorFactory, context: ExecutorContext
) -> LockstepExecutor:
    executor = _create(links, factory, context)
    with context.timer.phase("wait for other engines"):
        executor.wait_for_others()
    return executor


def keep_step(links: ExpertLinks, factory: ExecutorFactory) -> ExecutorFactory:
    """Returns a factory of executors that keep step with those of other engines.

    Args:
        links: The engine's links to them.
        factory: Makes the executor `uniproc` or `mp`.
    """
    return replace(factory, create=partial(_create, links, factory))


def _create(
    links: ExpertLinks, factory: ExecutorFactory, context: ExecutorContext
) -> LockstepExecutor:
    executor: Executor
    if factory.has_processes:
        executor = create(context, links)
    else:
        executor = factory(_as_only_rank(context, links))
    assert isinstance(executor, AssistingExecutor), "the configuration is checked"
    return LockstepExecutor(executor, Lockstep(links, executor.assist))


def _as_only_rank(context: ExecutorContext, links: ExpertLinks) -> ExecutorContext:
    """Makes the engine's only rank one of those that share the experts."""
    return replace(context, make_ranks=partial(_ranks_of, links))


def _ranks_of(links: ExpertLinks, config: EngineConfig) -> "RankContext":
    from hookline_ranks.experts.shared_experts import SharedExperts  # noqa: PLC0415
    from hookline_ranks.parallel_groups import ParallelGroups  # noqa: PLC0415
    from hookline_ranks.rank_context import DividedRankContext  # noqa: PLC0415

    experts = SharedExperts.of_rank(config, links)
    return DividedRankContext(config, ParallelGroups(experts=experts))
