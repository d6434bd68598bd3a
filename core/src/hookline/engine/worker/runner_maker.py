"""Builds a model's runner and its buffers: once to profile, then to serve."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

from hookline.engine.worker.extension import CacheShape, RunnerParts, ShownCache
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.input_batch import InputBatch
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.model_runner import ModelRunner
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.rank_context import SINGLE_RANK, RankContext, StepRunner
from hookline.engine.worker.sampling.logits_processor import (
    LogitsProcessor,
    LogitsProcessorContext,
)
from hookline.engine.worker.sampling.logits_processors import LogitsProcessors
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.engine.worker.sampling.sampling_state import SamplingState
from hookline.engine.worker.step_sampling import DrawAhead, StepSampling
from hookline_kernels import Platform
from hookline_kernels.cache_numbers import dtype_name
from hookline_kernels.runtime.cache_memory import CacheMemory
from hookline_kernels.runtime.stopwatch import stopwatch_for
from hookline_kernels.sampling import ChosenSampling, choose_sampling

if TYPE_CHECKING:  # it is only read
    from hookline.config.engine import EngineConfig

MakeProcessors = Callable[
    [LogitsProcessorContext, Sequence[LogitsProcessor]], LogitsProcessors
]
"""Makes a worker's logits processors, with those of extensions among them; may raise
`ConfigError`."""


class DeviceSteps(Protocol):
    """Brings steps to a device; copies their inputs if it has memory of its own.

    Attributes:
        reason_without_graphs: Why each kernel is launched; empty if steps of decodes
            are replayed.
    """

    @property
    def reason_without_graphs(self) -> str: ...

    def feed(self, maker: "RunnerMaker", cache: PagedCache) -> Feed:
        """Allocates the input buffers of steps over this cache."""
        ...

    def forward(self, maker: "RunnerMaker", feed: Feed) -> Forward:
        """Returns what computes batches of this feed."""
        ...

    def sampler(self, maker: "RunnerMaker", state: "BatchState") -> StepSampler:
        """Returns what samples for a batch of requests."""
        ...

    def draw_ahead(self, feed: Feed, sampler: StepSampler) -> DrawAhead | None:
        """Returns what draws without waiting; None where steps end before the next."""
        ...


@dataclass(frozen=True, slots=True)
class BatchState:
    """State of the requests in the batch; kept while a runner sleeps.

    Attributes:
        batch: The requests' tokens and blocks.
        sampling: The requests' sampling parameters and state.
    """

    batch: InputBatch
    sampling: SamplingState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerMaker:
    """Everything that runners of one loaded model share.

    Attributes:
        config: The engine's configuration.
        platform: The model's platform.
        isa: Instruction set of the CPU's kernels; empty without such kernels.
        model: The loaded model.
        may_compile: Steps use kernels, and not torch alone.
        extensions: The worker's sides of extensions.
        sampling: Picks tokens.
        device_steps: How steps reach the device.
        make_processors: Makes the logits processors.
        ranks: What this rank has of the others.
    """

    config: "EngineConfig"
    platform: Platform
    isa: str
    model: LoadedModel
    may_compile: bool
    extensions: FollowedRows
    sampling: ChosenSampling
    device_steps: DeviceSteps
    make_processors: MakeProcessors
    ranks: RankContext = SINGLE_RANK

    def with_kernels(self, model: LoadedModel) -> Self:
        """Returns the maker for the same model, which now computes by kernels."""
        sampling = choose_sampling(model.dtype, platform=self.platform)
        return replace(self, model=model, may_compile=True, sampling=sampling)

    def cache(self, num_blocks: int) -> PagedCache:
        """Allocates a KV cache."""
        return PagedCache(
            self.model.layers,
            num_blocks,
            self.config.cache.block_size,
            self.model.dtype,
            cache_dtype=self.model.cache_dtype,
            may_compile=self.may_compile,
            platform=self.platform,
            has_trees=self.extensions.draft_tree is not None,
        )

    def cache_shape(self, num_blocks: int) -> CacheShape:
        """Describes a KV cache to those who have layers of their own in its blocks."""
        return CacheShape(
            num_blocks=num_blocks,
            max_model_len=self.model.shape.max_model_len,
            dtype=self.model.dtype,
            cache_dtype=self.model.cache_dtype,
            platform=self.platform,
        )

    def feed(self, cache: PagedCache) -> Feed:
        """Allocates the feed of the model's inputs for steps over this cache."""
        return self.device_steps.feed(self, cache)

    def forward(self, feed: Feed) -> Forward:
        """Returns what computes batches of this feed."""
        return self.device_steps.forward(self, feed)

    def kernels_in_use(self, forward: Forward, cache: PagedCache) -> str:
        """Names each part of steps, and for each that is not the fastest the reason.

        The CPU's instruction set, which all of them may use, comes last.
        """
        parts = [(forward.name, forward.reason), (self.model.quantization, "")]
        parts += [
            (f"{each.name} attention", each.reason) for each in cache.attention.values()
        ]
        parts.append((f"{self.sampling.name} sampling", self.sampling.reason))
        if why := self.device_steps.reason_without_graphs:
            parts.append(("no CUDA graphs", why))
        if self.isa:
            parts.append((f"instructions up to {self.isa}", ""))
        words = [f"{name} ({why})" if why else name for name, why in parts if name]
        return ", ".join(dict.fromkeys(words))

    def batch_state(self, *, serves: bool = False) -> BatchState:
        """Allocates the rows of an empty batch.

        Args:
            serves: Whether requests are served, and plugins' logits processors called.

        Raises:
            ConfigError: A logits processor of a plugin cannot be created.
        """
        rows = self.config.scheduler.max_num_seqs
        shape, block_size = self.model.shape, self.config.cache.block_size
        processors = self._logits_processors(serves=serves)
        seed = self.config.model.seed
        return BatchState(
            InputBatch(
                rows, shape.max_model_len, block_size, self.extensions.draft_tree
            ),
            SamplingState(rows, shape.vocab_size, seed, processors),
        )

    def _logits_processors(self, *, serves: bool) -> LogitsProcessors:
        config = self.config
        context = LogitsProcessorContext(
            config=config if serves else replace(config, logits_processors=()),
            vocab_size=self.model.shape.vocab_size,
            max_num_seqs=self.config.scheduler.max_num_seqs,
            device=self.platform.device,
        )
        own = self.extensions.logits_processors(context) if serves else ()
        return self.make_processors(context, own)

    def show(self, cache: PagedCache) -> None:
        """Shows a cache to the extensions that use it.

        Must come before a forward pass is bound to the cache: they may be called
        between the layers.

        Raises:
            ConfigError: An extension cannot use the cache.
        """
        self.extensions.allocated(
            ShownCache(
                memory=cache,
                num_blocks=len(cache.keys[0]),
                dtype=dtype_name(self.model.cache_dtype),
                content=self.model.fingerprint + cache.layout.encode(),
            )
        )

    def runner(
        self,
        forward: Forward,
        feed: Feed,
        cache: PagedCache,
        state: BatchState,
        *,
        serves: bool = False,
    ) -> StepRunner:
        """Binds the forward pass to a cache and builds the runner of its steps.

        Args:
            forward: Computes logits.
            feed: Brings it its inputs.
            cache: Keys and values.
            state: The requests in the batch.
            serves: Whether requests are served, and extensions called.
        """
        forward.bind(cache)
        device = self.platform.device
        feed, stopwatch = self.ranks.feed(feed), stopwatch_for(device)
        extensions, shown = self.extensions if serves else None, feed
        if extensions is not None:
            extensions.bind(self._parts(cache, state))
            for side in extensions.sides:
                shown = side.feed(shown)
        passing = self.ranks.passing_runner(
            forward, state.batch, feed=shown, stopwatch=stopwatch, extensions=extensions
        )
        if passing is not None:
            return passing
        sampler = self.device_steps.sampler(self, state)
        samples = StepSampling(
            state.batch,
            self.ranks.share_samples(sampler),
            tree=self.extensions.draft_tree,
            drawn_drafts=None if extensions is None else extensions.drawn,
            draw_ahead=self.device_steps.draw_ahead(feed, sampler),
        )
        return ModelRunner(
            forward,
            state.batch,
            state.sampling,
            samples,
            feed=shown,
            stopwatch=stopwatch,
            needs_hidden_states=not serves and bool(self.extensions.states_option),
            extensions=extensions,
        )

    def _parts(self, cache: PagedCache, state: BatchState) -> RunnerParts:
        """Returns what extensions work with.

        They leave drafts alone where these are trees, which have a fixed shape. Where
        none gives drafts itself, steps may be planned ahead of drafts, and CUDA graphs
        verify none.
        """
        extensions, ahead = self.extensions, self.config.scheduler.async_scheduling
        can_verify = extensions.most_drafts > 0 or not (ahead or self.platform.is_gpu)
        return RunnerParts(
            batch=state.batch,
            cache=cache,
            vocab_size=self.model.shape.vocab_size,
            can_change_drafts=can_verify and extensions.draft_tree is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A worker's KV cache, its input buffers and the rows of its batch.

    It outlives sleep, which takes only the contents of the KV cache.

    Attributes:
        cache: Keys and values of the model.
        memory: Its memory, with that of extensions' own layers.
        feed: Brings inputs to the model.
        state: The requests in the batch.
        cache_key: Models with another key cannot use this cache.
    """

    cache: PagedCache
    memory: CacheMemory
    feed: Feed
    state: BatchState
    cache_key: tuple[object, ...]

    @classmethod
    def of(cls, maker: RunnerMaker, num_blocks: int) -> Self:
        """Allocates a KV cache of that many blocks, and all that goes with it.

        Raises:
            ConfigError: An extension cannot use the cache, or a plugin's logits
                processor cannot be created.
        """
        cache = maker.cache(num_blocks)
        maker.show(cache)
        tensors = [side for sides in cache.sides() for side in sides]
        tensors += maker.extensions.allocate(maker.cache_shape(num_blocks))
        return cls(
            cache=cache,
            memory=CacheMemory(tensors),
            feed=maker.feed(cache),
            state=maker.batch_state(serves=True),
            cache_key=maker.model.cache_key,
        )

    @property
    def num_blocks(self) -> int:
        """Number of blocks in the KV cache."""
        return len(self.cache.keys[0])

    def close(self) -> None:
        """Ends the threads of plugins that work on this memory."""
        self.state.sampling.close()
