"""What a worker has of the other ranks, if there are any."""

import msgspec
from transformers import PreTrainedConfig

from hookline.config.engine import EngineConfig
from hookline.engine.worker.executor import Compute
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.rank_context import RankContext
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.stats.step_work import NO_RANKS, RankUse
from hookline.step import StepPlan, StepResult
from hookline_kernels.runtime.stopwatch import Stopwatch
from hookline_models.checkpoints.model_part import ModelPart
from hookline_ranks.gathered_forward import GatheredForward
from hookline_ranks.parallel_groups import ParallelGroups
from hookline_ranks.sharding.rank_part import RankDivider
from hookline_ranks.sharding.rank_reduction import RankReduction
from hookline_ranks.stages.stage import ONLY, Stage
from hookline_ranks.stages.stage_links import LinkedFeed, PassedFeatures
from hookline_ranks.stages.stage_runner import PassingForward, StageRunner


class DividedRankContext(RankContext):
    """The context of one of several ranks."""

    def __init__(self, config: EngineConfig, groups: ParallelGroups) -> None:
        """Creates the context of a rank that has joined its groups.

        Args:
            config: The rank's configuration.
            groups: The groups of ranks to which it belongs.
        """
        parallel, self._groups = config.parallel, groups
        self.is_alone = parallel.world_size == 1 and not config.spreads_experts
        self._stage = Stage(parallel.stage, parallel.pipeline_parallel_size)
        self._has_whole_experts = parallel.enable_expert_parallel
        self._reduce: RankReduction | None = None
        if (group := groups.tensor) is not None:
            self.num_sharers = group.size
        self.has_whole_tables = group is None and self._stage == ONLY

    # -- the model ---------------------------------------------------------------

    @property
    def reduce(self) -> RankReduction | None:
        """Implements `RankContext`."""
        return self._reduce

    @property
    def identity(self) -> str:
        """Implements `RankContext`."""
        return "" if self._reduce is None else self._reduce.identity

    def begin_loading(self, *, looks_inside: bool) -> None:
        """Implements `RankContext`; others do not load and try models meanwhile.

        If one rank must look into steps, none replays them: all do as it does.
        """
        groups = self._groups
        if groups.experts is not None:
            groups.experts.leave()
        if groups.tensor is not None:
            self._reduce = RankReduction(groups.tensor, is_recorded=not looks_inside)

    def divide(self, config: PreTrainedConfig) -> ModelPart:
        """Implements `RankContext`."""
        groups, has_whole = self._groups, self._has_whole_experts
        divider = RankDivider(
            reduce=self._reduce,
            count_expert_tokens=groups.count_expert_tokens if has_whole else None,
            expert_group=groups.experts,
            stage=self._stage,
        )
        return divider(config)

    def whole_logits(self, forward: Forward, vocab_size: int) -> Forward:
        """Implements `RankContext`."""
        if self._reduce is None or not self._stage.is_last:
            return forward
        return GatheredForward(forward, self._reduce, vocab_size)

    def end_loading(self, model: LoadedModel) -> None:
        """Implements `RankContext`."""
        if self._reduce is not None:
            self._reduce.join()
        if self._groups.experts is not None:
            self._groups.experts.open(model.hidden_size, model.dtype)

    def link_stages(self, model: LoadedModel, feature_layers: tuple[int, ...]) -> None:
        """Implements `RankContext`."""
        if (stages := self._groups.stages) is None:
            return
        passed = PassedFeatures.of(feature_layers, model.own_layers)
        stages.open(model.hidden_size, model.dtype, passed)
        if stages.has_after and feature_layers:
            assert isinstance(model.forward, PassingForward)
            model.forward.read_features(feature_layers)

    def join(self) -> None:
        """Implements `RankContext`."""
        if self._groups.experts is not None:
            self._groups.experts.join()

    def leave(self) -> None:
        """Implements `RankContext`."""
        if self._groups.experts is not None:
            self._groups.experts.leave()

    # -- a step ------------------------------------------------------------------

    def feed(self, feed: Feed) -> Feed:
        """Implements `RankContext`."""
        stages = self._groups.stages
        if stages is None or not stages.has_before:
            return feed
        return LinkedFeed(feed, stages)

    def share_samples(self, sampler: StepSampler) -> StepSampler:
        """Implements `RankContext`."""
        return self._groups.share_samples(sampler)

    def passing_runner(
        self,
        forward: Forward,
        batch: InputBatch,
        *,
        feed: Feed,
        stopwatch: Stopwatch,
        extensions: FollowedRows | None,
    ) -> StageRunner | None:
        """Implements `RankContext`."""
        stages = self._groups.stages
        if stages is None or not stages.has_after:
            return None
        assert isinstance(forward, PassingForward)
        return StageRunner(
            forward,
            batch,
            feed=feed,
            links=stages,
            stopwatch=stopwatch,
            extensions=extensions,
        )

    def around_step(self, compute: Compute) -> Compute:
        """Implements `RankContext`."""

        def computed(plan: StepPlan) -> StepResult:
            return self._end_step(compute(plan))

        return computed

    def _end_step(self, result: StepResult) -> StepResult:
        """Adds what has passed between ranks to a step's result."""
        forward_ns = result.execution.forward_ns
        if (stages := self._groups.stages) is not None:
            forward_ns += stages.forward_ns
        return result.with_execution(forward_ns=forward_ns, rank_use=self._use())

    def assist(self) -> RankUse:
        """Implements `RankContext`."""
        assert self._groups.experts is not None
        self._groups.experts.assist()
        return self._use()

    def _use(self) -> RankUse:
        """Looks at what passed between ranks since the last call."""
        group, experts = self._groups.tensor, self._groups.experts
        use = NO_RANKS if experts is None else experts.end_step()
        if group is None:
            return use
        return msgspec.structs.replace(use, exchange_ns=group.end_step())
