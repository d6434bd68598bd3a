"""What one rank's worker has of the other ranks; here that of a single rank."""

from typing import TYPE_CHECKING, Protocol

from hookline.engine.worker.executor import Compute
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.stats.step_work import NO_RANKS, RankUse
from hookline.step import StepPlan, StepResult
from hookline_kernels.modules.reduction import Reduce
from hookline_kernels.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:  # whoever loads models knows it
    from transformers import PreTrainedConfig

    from hookline.engine.worker.loaded_model import LoadedModel


class StepRunner(Protocol):
    """Computes steps, or the part of them that a rank has."""

    def execute(self, plan: StepPlan) -> StepResult:
        """Computes a step. Any exception is fatal to the engine."""


class RankContext:
    """Cuts of weights and reductions; here those of a single rank, which are none.

    Distributions that divide models among ranks have others. All methods are called
    from the worker's thread.

    Attributes:
        num_sharers: Number of ranks that share each layer.
        has_whole_tables: Embedding and output layer are whole on this rank.
        is_alone: No other rank makes the same calls: this one may change its kernels.
    """

    num_sharers = 1
    is_alone = True
    has_whole_tables = True

    # -- the model ---------------------------------------------------------------

    @property
    def reduce(self) -> Reduce | None:
        """Sums over the ranks that share the model's layers; None if it is whole."""
        return None

    @property
    def identity(self) -> str:
        """Tells the ranks that share layers apart; empty if there is one."""
        return ""

    def begin_loading(self, *, looks_inside: bool) -> None:
        """Makes no calls to other ranks while a model is loaded and tried.

        Args:
            looks_inside: A rank will show hidden states in all steps.
        """
        del looks_inside

    def divide(self, config: "PreTrainedConfig") -> object | None:
        """Plans this rank's part of a model, as its loader takes it. None is all of it.

        Raises:
            ConfigError: As many ranks cannot share it.
        """
        del config
        return None

    def whole_logits(self, forward: Forward, vocab_size: int) -> Forward:
        """Returns a forward pass with the logits of the whole vocabulary."""
        del vocab_size
        return forward

    def end_loading(self, model: "LoadedModel") -> None:
        """The model is loaded: from here on all ranks compute the same steps."""

    def link_stages(
        self, model: "LoadedModel", feature_layers: tuple[int, ...]
    ) -> None:
        """Gets ready to exchange hidden states with other pipeline stages.

        Args:
            model: This rank's part of the model.
            feature_layers: Layers whose inputs the rank that drafts needs.

        Raises:
            ConfigError: The model does not show the inputs of its layers.
        """

    def join(self) -> None:
        """Begins to serve: what other engines compute may need this rank."""

    def leave(self) -> None:
        """Drops the model's weights for a sleep."""

    # -- a step ------------------------------------------------------------------

    def feed(self, feed: Feed) -> Feed:
        """Returns a feed with what other ranks have computed of each batch."""
        return feed

    def share_samples(self, sampler: StepSampler) -> StepSampler:
        """Returns a sampler with which all ranks get the same tokens."""
        return sampler

    def passing_runner(
        self,
        forward: Forward,
        batch: InputBatch,
        *,
        feed: Feed,
        stopwatch: Stopwatch,
        extensions: FollowedRows | None,
    ) -> StepRunner | None:
        """Makes the runner of a rank that samples nothing; None on others.

        Args:
            forward: Computes hidden states; bound to a cache.
            batch: Rows of the running requests.
            feed: Brings inputs to the model's device.
            stopwatch: Measures forward passes.
            extensions: The worker's sides of extensions; None without any.
        """
        del forward, batch, feed, stopwatch, extensions
        return None

    def around_step(self, compute: Compute) -> Compute:
        """Returns what computes steps, and adds what has passed between ranks.

        It raises `RankError` if a rank did not take part in all of a step.
        """
        return compute

    def assist(self) -> RankUse:
        """Takes part in a step of other engines, without tokens of its own.

        Raises:
            RankError: Another rank did not come.
        """
        return NO_RANKS


SINGLE_RANK = RankContext()
"""The context of a rank without others."""
