"""Builds a model's runner and its buffers: once to profile, then to serve."""

from dataclasses import dataclass

from hookline.config import EngineConfig, Kernels
from hookline.kv_transfer.connector import WorkerConnector, needs_layers
from hookline.worker.cache_dtype import dtype_name
from hookline.worker.extension import CacheShape, RunnerParts
from hookline.worker.feed import Feed, HostFeed
from hookline.worker.followed_rows import FollowedRows
from hookline.worker.forward import Forward
from hookline.worker.gpu.device_feed import DeviceFeed
from hookline.worker.graph_plan import GraphPlan
from hookline.worker.input_batch import InputBatch
from hookline.worker.loaded_model import LoadedModel
from hookline.worker.machine import Machine
from hookline.worker.model_runner import ModelRunner
from hookline.worker.paged_cache import PagedCache
from hookline.worker.rank_context import SINGLE_RANK, RankContext, StepRunner
from hookline.worker.sampling.logits_processor import LogitsProcessorContext
from hookline.worker.sampling.logits_processors import LogitsProcessors
from hookline.worker.sampling.processor_loading import logits_processors
from hookline.worker.sampling.sampler import Sampler
from hookline.worker.sampling.sampling_state import SamplingState
from hookline.worker.stopwatch import stopwatch_for
from hookline.worker.transfers.connecting import connect
from hookline.worker.transfers.kv_memory import layers_of
from hookline.worker.transfers.transferring import Transferring
from hookline_kernels.sampling import ChosenSampling, choose_sampling


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
        machine: The model's machine.
        model: The loaded model.
        connector: Moves KV; None without a KV connector.
        extensions: The worker's sides of extensions.
        sampling: Picks tokens.
        graphs: CUDA graphs of the model.
        ranks: What this rank has of the others.
    """

    config: EngineConfig
    machine: Machine
    model: LoadedModel
    connector: WorkerConnector | None
    extensions: FollowedRows
    sampling: ChosenSampling
    graphs: GraphPlan
    ranks: RankContext = SINGLE_RANK

    @classmethod
    def of(
        cls,
        config: EngineConfig,
        machine: Machine,
        model: LoadedModel,
        *,
        connector: WorkerConnector | None,
        extensions: FollowedRows,
        ranks: RankContext = SINGLE_RANK,
    ) -> "RunnerMaker":
        """Chooses the sampling kernels."""
        return cls(
            config=config,
            machine=machine,
            model=model,
            connector=connector,
            extensions=extensions,
            sampling=choose_sampling(
                model.dtype,
                may_compile=config.executor.kernels is not Kernels.TORCH,
                platform=machine.platform,
            ),
            graphs=GraphPlan(
                config=config,
                machine=machine,
                model=model,
                connector=connector,
                most_drafts=extensions.most_drafts,
            ),
            ranks=ranks,
        )

    def cache(self, num_blocks: int) -> PagedCache:
        """Allocates a KV cache."""
        return PagedCache(
            self.model.layers,
            num_blocks,
            self.config.cache.block_size,
            self.model.dtype,
            cache_dtype=self.model.cache_dtype,
            may_compile=self.config.executor.kernels is not Kernels.TORCH,
            platform=self.machine.platform,
            has_trees=self.extensions.draft_tree is not None,
        )

    def cache_shape(self, num_blocks: int) -> CacheShape:
        """Describes a KV cache to those who have layers of their own in its blocks."""
        return CacheShape(
            num_blocks=num_blocks,
            max_model_len=self.model.max_model_len,
            dtype=self.model.dtype,
            cache_dtype=self.model.cache_dtype,
            platform=self.machine.platform,
        )

    def feed(self, cache: PagedCache) -> HostFeed | DeviceFeed:
        """Allocates the feed of the model's inputs for steps over this cache."""
        if self.machine.platform.is_gpu:
            return self.graphs.feed()
        has_tiles = all(each.has_tiles for each in cache.attention.values()) and all(
            layer.softcap is None for layer in self.model.attention
        )
        return HostFeed(has_tiles=has_tiles, tree=self.extensions.draft_tree)

    def batch_state(self, *, serves: bool = False) -> BatchState:
        """Allocates the rows of an empty batch.

        Args:
            serves: Whether requests are served, and plugins' logits processors called.

        Raises:
            ConfigError: A logits processor of a plugin cannot be created.
        """
        rows = self.config.scheduler.max_num_seqs
        length, block_size = self.model.max_model_len, self.config.cache.block_size
        processors = self._logits_processors() if serves else None
        seed, vocab_size = self.config.model.seed, self.model.vocab_size
        return BatchState(
            InputBatch(rows, length, block_size, self.extensions.draft_tree),
            SamplingState(rows, vocab_size, seed, processors),
        )

    def _logits_processors(self) -> LogitsProcessors:
        context = LogitsProcessorContext(
            config=self.config,
            vocab_size=self.model.vocab_size,
            max_num_seqs=self.config.scheduler.max_num_seqs,
            device=self.machine.platform.device,
        )
        return logits_processors(context, self.extensions.logits_processors(context))

    def transferring(self, cache: PagedCache) -> Transferring | None:
        """Shows a cache to the connector; None without one.

        Must come before a forward pass is bound to the cache: the connector may be
        called between the layers.

        Raises:
            ConfigError: The connector cannot use the cache.
        """
        if self.connector is None:
            return None
        transferring = connect(
            self.connector,
            self.config,
            layers_of(cache),
            num_blocks=len(cache.keys[0]),
            dtype=dtype_name(self.model.cache_dtype),
            content=self.model.fingerprint + cache.layout.encode(),
        )
        if needs_layers(self.connector):
            cache.call_around(
                transferring.before_attention, transferring.after_attention
            )
        return transferring

    def runner(
        self,
        forward: Forward,
        feed: Feed,
        cache: PagedCache,
        state: BatchState,
        *,
        transferring: Transferring | None = None,
        serves: bool = False,
    ) -> StepRunner:
        """Binds the forward pass to a cache and builds the runner of its steps.

        Args:
            forward: Computes logits.
            feed: Brings it its inputs.
            cache: Keys and values.
            state: The requests in the batch.
            transferring: Calls the connector around each step; None without one.
            serves: Whether requests are served, and extensions called.
        """
        forward.bind(cache)
        device = self.machine.platform.device
        feed, stopwatch = self.ranks.feed(feed), stopwatch_for(device)
        extensions = self.extensions if serves else None
        if extensions is not None:
            extensions.bind(self._parts(cache, state))
        passing = self.ranks.passing_runner(
            forward,
            state.batch,
            feed=feed,
            stopwatch=stopwatch,
            transferring=transferring,
            starts=() if extensions is None else extensions.starts,
        )
        if passing is not None:
            return passing
        sampler = Sampler(state.batch, state.sampling, self.sampling, device)
        return ModelRunner(
            forward,
            state.batch,
            state.sampling,
            self.ranks.share_samples(sampler),
            feed=feed,
            stopwatch=stopwatch,
            needs_hidden_states=not serves and bool(self.extensions.states_option),
            tree=self.extensions.draft_tree,
            transferring=transferring,
            extensions=extensions,
        )

    def _parts(self, cache: PagedCache, state: BatchState) -> RunnerParts:
        """Returns what extensions work with.

        They leave drafts alone where these are trees, which have a fixed shape. Where
        none gives drafts itself, steps may be planned ahead of drafts, and CUDA graphs
        verify none.
        """
        extensions, is_gpu = self.extensions, self.machine.platform.is_gpu
        ahead = self.config.scheduler.async_scheduling
        can_verify = extensions.most_drafts > 0 or not (ahead or is_gpu)
        return RunnerParts(
            batch=state.batch,
            cache=cache,
            vocab_size=self.model.vocab_size,
            can_change_drafts=can_verify and extensions.draft_tree is None,
        )
