"""Makes a model's runner with its buffers: once for the profile, once to serve."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hookline.config import EngineConfig, Kernels
from hookline.kv_transfer.connector import WorkerConnector, needs_layers
from hookline.models.decoder import Decoder
from hookline.models.probe import LayerCache
from hookline.plugin_loading.proposers import bind_proposer
from hookline.spec_decode.proposer import (
    Proposer,
    has_layers,
    wanted_features,
    wants_hidden_states,
)
from hookline.spec_decode.tree import tree_of
from hookline.worker.drafting.control import DraftControl
from hookline.worker.drafting.draft_cache import DraftMemory
from hookline.worker.drafting.draft_trees import TreeArrays
from hookline.worker.drafting.drafter import Drafter
from hookline.worker.drafting.guard import ProposerGuard
from hookline.worker.forward import Forward
from hookline.worker.gpu.cuda_graphs import GraphedForward
from hookline.worker.gpu.device_feed import DeviceFeed
from hookline.worker.gpu.graph_sizes import GraphSizes
from hookline.worker.input_batch import InputBatch
from hookline.worker.machine import Machine
from hookline.worker.model_runner import ModelRunner
from hookline.worker.paged_cache import PagedCache
from hookline.worker.sampling.sampler import Sampler
from hookline.worker.sampling.sampling_state import SamplingState
from hookline.worker.step_tensors import Feed
from hookline.worker.stopwatch import stopwatch_for
from hookline.worker.transfers.connecting import connect
from hookline.worker.transfers.kv_memory import layers_of
from hookline.worker.transfers.transferring import Transferring
from hookline_kernels.sampling import ChosenSampling


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerMaker:
    """Everything that runners of one model share.

    Attributes:
        config: Of the engine.
        machine: What the model runs on.
        forward: The model, each step launched.
        layers: Its caches.
        dtype: Of weights and cache.
        vocab_size: Number of token ids.
        max_model_len: Of a sequence, in tokens.
        sampling: What picks tokens.
        proposer: What drafts, if anything does.
        tree: The form of its drafts; None if they are chains.
        connector: What moves KV, if anything does.
        content: What the KV depends on beside the tokens, if anything moves it.
    """

    config: EngineConfig
    machine: Machine
    forward: Forward
    layers: Sequence[LayerCache]
    dtype: torch.dtype
    vocab_size: int
    max_model_len: int
    sampling: ChosenSampling
    proposer: Proposer | None = None
    tree: TreeArrays | None = None
    connector: WorkerConnector | None = None
    content: bytes = b""

    def cache(self, num_blocks: int) -> PagedCache:
        return PagedCache(
            self.layers,
            num_blocks,
            self.config.cache.block_size,
            self.dtype,
            may_compile=self.config.executor.kernels is not Kernels.TORCH,
            platform=self.machine.platform,
            has_trees=self.tree is not None,
        )

    @property
    def drafting(self) -> DraftMemory:
        """Of the layers that the proposer has itself."""
        return DraftMemory.of(self.proposer, self.config)

    def bind_proposer(self, num_blocks: int) -> None:
        """Gives a proposer with layers of its own their part of so many blocks.

        Raises:
            ConfigError: It cannot use it.
        """
        if self.proposer is None or not self.drafting.layers:
            return
        cache = self.drafting.cache(
            num_blocks, self.max_model_len, self.dtype, self.machine.platform
        )
        bind_proposer(self.proposer, self.config, cache)

    @property
    def reason_without_graphs(self) -> str:
        """Why each step is launched on this device; empty if graphs are captured."""
        if self.machine.new_capture is None:
            return "enforce-eager"
        if needs_layers(self.connector):
            return "a KV connector is called between the layers"
        if wanted_features(self.proposer):
            return "the proposer reads what is within the model"
        return "" if self._capturable else "modules may wait for the device"

    @property
    def graph_sizes(self) -> GraphSizes:
        """Without any where each step is launched."""
        if self.reason_without_graphs:
            return GraphSizes()
        return GraphSizes.up_to(self._most_sequences)

    def device_feed(self) -> DeviceFeed:
        """Buffers for steps on a GPU."""
        scheduler = self.config.scheduler
        return DeviceFeed(
            self.machine.platform.device,
            max_tokens=scheduler.max_num_batched_tokens,
            max_num_seqs=self._most_sequences,
            max_num_blocks=-(-self.max_model_len // self.config.cache.block_size),
            sizes=self.graph_sizes,
        )

    def graphed(self, feed: DeviceFeed) -> GraphedForward | None:
        """The model with graphs over a feed, if it can have any."""
        capturable = self._capturable
        if self.reason_without_graphs or capturable is None:
            return None
        assert self.machine.new_capture is not None
        return GraphedForward(
            capturable,
            feed,
            self.graph_sizes,
            self.machine.new_capture(),
            longest=self.max_model_len,
        )

    @property
    def _capturable(self) -> Decoder | None:
        forward = self.forward
        if isinstance(forward, Decoder) and forward.is_capturable:
            return forward
        return None

    @property
    def _most_sequences(self) -> int:
        """Of a step; each draft is one of its own."""
        scheduler, speculative = self.config.scheduler, self.config.speculative
        if speculative is None:
            return scheduler.max_num_seqs
        most = scheduler.max_num_seqs * (1 + speculative.most_speculative_tokens)
        return min(most, scheduler.max_num_batched_tokens)

    def runner(
        self,
        forward: Forward,
        feed: Feed,
        cache: PagedCache,
        *,
        serves: bool = False,
    ) -> ModelRunner:
        """With a cache, to which the forward pass is bound.

        Args:
            forward: Computes logits.
            feed: Brings it its inputs.
            cache: Of keys and values.
            serves: Have plugins called with each step.
        """
        transferring = self._transferring(cache) if serves else None
        forward.bind(cache)
        seqs, device = (
            self.config.scheduler.max_num_seqs,
            self.machine.platform.device,
        )
        block_size = self.config.cache.block_size
        batch = InputBatch(seqs, self.max_model_len, block_size, self.tree)
        state = SamplingState(seqs, self.vocab_size, self.config.model.seed)
        sampler = Sampler(batch, state, self.sampling, device)
        stopwatch = stopwatch_for(device)
        return ModelRunner(
            forward,
            batch,
            state,
            sampler,
            feed=feed,
            stopwatch=stopwatch,
            cache=cache,
            drafter=self._drafter(batch) if serves else None,
            tells_hidden=self.tells_hidden,
            tree=self.tree,
            transferring=transferring,
        )

    @property
    def tells_hidden(self) -> bool:
        """Whether steps compute hidden states, those of the profile too."""
        return self.proposer is not None and wants_hidden_states(self.proposer)

    def _transferring(self, cache: PagedCache) -> Transferring | None:
        """What calls the connector, perhaps between this cache's layers from now on.

        Raises:
            ConfigError: It cannot use the cache.
        """
        if self.connector is None:
            return None
        transferring = connect(
            self.connector,
            self.config,
            layers_of(cache),
            num_blocks=len(cache.keys[0]),
            dtype=str(self.dtype).removeprefix("torch."),
            content=self.content + cache.layout.encode(),
        )
        if needs_layers(self.connector):
            cache.call_around(
                transferring.before_attention, transferring.after_attention
            )
        return transferring

    def _drafter(self, batch: InputBatch) -> Drafter | None:
        speculative = self.config.speculative
        if self.proposer is None or speculative is None:
            return None
        guard = ProposerGuard(self.proposer, speculative, vocab_size=self.vocab_size)
        return Drafter(
            guard,
            batch,
            DraftControl.of(speculative),
            tells_blocks=has_layers(self.proposer),
            tree=tree_of(self.proposer),
        )
