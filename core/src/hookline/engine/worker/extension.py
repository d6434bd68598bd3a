"""The worker's side of an extension.

An extension overrides the methods that it needs; the others are not called.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from hookline.finish_cause import FinishCause
from hookline.step import AdmittedSequence, StepPlan

if TYPE_CHECKING:  # need torch, which the scheduler's side of an extension does not
    import numpy as np
    import numpy.typing as npt
    import torch
    from transformers import PreTrainedModel

    from hookline.config.parallel import ParallelConfig
    from hookline.engine.decoder.layer_shapes import LayerAttention, LayerCache
    from hookline.engine.worker.forward import Feed, Forward
    from hookline.engine.worker.input_batch import InputBatch, Int64, StepInputs
    from hookline.engine.worker.paged_cache import PagedCache
    from hookline.engine.worker.sampling.logits_processor import (
        LogitsProcessor,
        LogitsProcessorContext,
    )
    from hookline.engine.worker.sampling.sampler import DrawnDrafts
    from hookline.engine.worker.verification import DraftTree
    from hookline.model_description import ModelDescription
    from hookline_kernels import Platform
    from hookline_kernels.draft_verification import Verified


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedParts:
    """A model that has been loaded, before it is arranged for its forward pass.

    Attributes:
        model: The model, or the part of it that this rank has.
        description: Its description.
        attention: How its layers attend.
        platform: The platform that computes it.
        has_whole_tables: Embedding and output layer are whole on this rank.
    """

    model: "PreTrainedModel"
    description: "ModelDescription"
    attention: "Sequence[LayerAttention]"
    platform: "Platform"
    has_whole_tables: bool


class BlockMemory(Protocol):
    """The memory of a KV cache."""

    def sides(self) -> "Sequence[Sequence[torch.Tensor | npt.NDArray[np.int64]]]":
        """Returns the arrays that own each layer's memory, such as keys and values.

        Their first dimension is the block; each block is contiguous.
        """

    def call_around(
        self, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        """Calls both with each layer's index, before and after its attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCache:
    """A KV cache, before any step is computed with it.

    Attributes:
        memory: Its memory.
        num_blocks: Number of blocks in it.
        dtype: Type of keys and values.
        content: Everything that keys and values depend on besides tokens, block size
            and hashes: the model, and the memory layout.
    """

    memory: BlockMemory
    num_blocks: int
    dtype: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """The KV cache that a worker allocates.

    Attributes:
        num_blocks: Number of blocks.
        max_model_len: Maximum number of tokens in a sequence.
        dtype: Data type of the model.
        cache_dtype: Data type of the cache.
        platform: The platform that has it.
    """

    num_blocks: int
    max_model_len: int
    dtype: "torch.dtype"
    cache_dtype: "torch.dtype"
    platform: "Platform"


class OwnLayers(Protocol):
    """Attention layers of an extension, whose keys and values lie in the KV blocks."""

    @property
    def layers(self) -> "tuple[LayerCache, ...]":
        """Shape of each layer's cache."""
        ...

    def spare_bytes(self, cache_dtype: "torch.dtype") -> int:
        """Returns the bytes that they need beside the blocks."""
        ...


@dataclass(slots=True)
class WorkerStep:
    """A step that a worker computes.

    An extension may add to `failed` and `sections`, and replace `drafts`.

    Attributes:
        plan: The step's plan.
        inputs: Its flattened batch.
        failed: Causes of errors by request id; these requests end, but for those that
            are `Corrupted` and served.
        hidden_states: [T, hidden] the model's last hidden states of all tokens; None
            if nobody needs them.
        features: [T, layers × hidden] the inputs of `feature_layers`; None without.
        rows: [S] rows that were sampled for; a request's are adjacent. None before.
        tokens: Sampled tokens by request id; none before.
        verified: Which samples are kept, in a step that verifies drafts.
        drafts: Drafts for the next step by request id.
        sections: Sections of the result.
    """

    plan: StepPlan
    inputs: "StepInputs"
    failed: dict[int, FinishCause]
    hidden_states: "torch.Tensor | None" = None
    features: "torch.Tensor | None" = None
    rows: "Int64 | None" = None
    tokens: dict[int, list[int]] = field(default_factory=dict)
    verified: "Verified | None" = None
    drafts: dict[int, list[int]] = field(default_factory=dict)
    sections: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """The parts of a runner that an extension works with.

    Attributes:
        batch: Rows of the running requests.
        cache: Keys and values of the model.
        vocab_size: Number of token ids.
        can_change_drafts: Whether the next step verifies chains of drafts.
    """

    batch: "InputBatch"
    cache: "PagedCache"
    vocab_size: int
    can_change_drafts: bool


class WorkerSide:
    """An extension's side in the worker. All runs on the worker's thread.

    What it raises ends the engine.

    Attributes:
        states_option: The option for which it needs hidden states; empty if it needs
            none.
        looks_inside: Whether a rank has to show hidden states in all steps, so that no
            rank may replay recorded ones.
        most_drafts: Maximum number of drafts that it gives a request for a step.
        feature_layers: Layers of the model whose inputs it needs; set by `prepare`.
        draft_tree: The shape of its drafts, set by `prepare`; None for chains.
        own_layers: Its own attention layers, set by `prepare`; None without any.
        uses_cache: Whether it is shown the KV cache, once, and needs the model's
            fingerprint.
        keeps_forward: Whether it must not see other kernels later, so that the engine
            does not start without them; implied by `uses_cache`.
        graph_obstacle: Why steps cannot be captured in CUDA graphs; empty if they can.
        allows_ahead: Whether steps may start and end before a device computes them.
    """

    states_option: str = ""
    looks_inside: bool = False
    most_drafts: int = 0
    feature_layers: tuple[int, ...] = ()
    draft_tree: "DraftTree | None" = None
    own_layers: OwnLayers | None = None
    uses_cache: bool = False
    keeps_forward: bool = False
    graph_obstacle: str = ""
    allows_ahead: bool = False

    def prepare(self, parts: LoadedParts) -> None:
        """The model is loaded; called again after a sleep without weights.

        Raises:
            ConfigError: The extension does not fit the model.
        """

    def forward(self, forward: "Forward") -> "Forward":
        """Returns what computes the prepared model; may put own layers into it.

        Raises:
            ConfigError: The extension needs another forward pass.
        """
        return forward

    def feed(self, feed: "Feed") -> "Feed":
        """Returns what makes the batches of steps; called after `bind`."""
        return feed

    def allocate(self, shape: CacheShape) -> "Sequence[torch.Tensor]":
        """Allocates the memory of its own layers, and returns all of it.

        Called for an extension with `own_layers`, before `bind`.
        """
        del shape
        return ()

    def unload(self) -> None:
        """The model's weights go for a sleep, and so should its own."""

    def logits_processors(
        self, context: "LogitsProcessorContext"
    ) -> Sequence["LogitsProcessor"]:
        """Returns its logits processors, for the worker's whole life."""
        del context
        return ()

    def allocated(self, cache: ShownCache) -> None:
        """The KV cache is allocated; called once, if `uses_cache`.

        Its memory stays the same for the worker's whole life.

        Raises:
            ConfigError: The extension cannot use such a cache.
        """

    def describe(self, sections: dict[str, object]) -> None:
        """Adds its section of the model's shape, after `allocated`."""

    def bind(self, parts: RunnerParts) -> None:
        """Steps will be computed with these parts; called for each new runner."""

    def started(self, plan: StepPlan) -> None:
        """A step begins. Called for each plan, before anything is computed."""

    def ended(self, sections: dict[str, object]) -> None:
        """The layers are computed, in a step without requests at once.

        Called for each plan, also where nothing is sampled; adds its section of the
        result. Afterwards the step's KV blocks may change.
        """

    def joined(self, row: int, sequence: AdmittedSequence) -> bool:
        """A request joins the batch, for the first time or after a preemption.

        Returns:
            Whether the extension follows this request. `left`, `computed` and `sampled`
            are called only while it follows one.
        """
        raise NotImplementedError

    def left(self, row: int) -> None:
        """A request that it follows has left its row."""

    def computed(self, step: WorkerStep) -> None:
        """The model has computed a step, and nothing has been sampled yet."""

    def drawn(self, rows: "Int64") -> "DrawnDrafts | None":
        """Returns the drafts that a step verifies and that have probabilities.

        Args:
            rows: [S] row of each sample; a request's are adjacent.
        """
        raise NotImplementedError

    def sampled(self, step: WorkerStep) -> None:
        """Tokens were sampled; drafts for the next step can be given or changed."""

    def close(self) -> None:
        """The worker ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """What an extension knows when its side in a worker is made.

    Attributes:
        samples: Whether tokens are sampled in this rank, whose results count.
        has_hidden_states: Whether this rank computes the model's last hidden states.
    """

    samples: bool = True
    has_hidden_states: bool = True


@runtime_checkable
class WorkerExtension(Protocol):
    """An extension that has a side in each worker."""

    def worker_side(self, context: WorkerContext) -> WorkerSide | None:
        """Makes the side; called once in each rank. None if it has no work there."""


def worker_sides(
    extensions: Collection[object], parallel: "ParallelConfig"
) -> list[WorkerSide]:
    """Makes the sides of those extensions that have one in a rank."""
    context = WorkerContext(
        samples=parallel.rank == parallel.output_rank,
        has_hidden_states=parallel.stage == parallel.pipeline_parallel_size - 1,
    )
    made = [
        each.worker_side(context)
        for each in extensions
        if isinstance(each, WorkerExtension)
    ]
    return [side for side in made if side is not None]
