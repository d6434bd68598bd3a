"""Decides which steps on a GPU are replayed from CUDA graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from hookline.config.engine import EngineConfig
from hookline.engine.decoder import Decoder
from hookline.engine.worker.forward import Feed, Forward
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.runner_maker import BatchState, RunnerMaker
from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.engine.worker.step_sampling import DrawAhead
from hookline_kernels.gpu.graph_capture import Capture
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_models.machines.cuda_graphs import GraphedForward
from hookline_models.machines.device_feed import DeviceFeed
from hookline_models.machines.drawing_ahead import drawn_ahead
from hookline_models.sampling.sampler import Sampler, make_sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlan:
    """The graphs of a loaded model, and the input buffers that they read.

    Attributes:
        config: The engine's configuration.
        device: The model's device.
        new_capture: Creates a capturer of graphs; None launches each step.
        model: The loaded model.
        most_drafts: Maximum number of drafts of a request in a step.
        obstacle: Why an extension forbids graphs; empty if none does.
    """

    config: EngineConfig
    device: torch.device
    new_capture: Callable[[], Capture] | None
    model: LoadedModel
    most_drafts: int
    obstacle: str = ""

    @property
    def reason_without_graphs(self) -> str:
        """Why each step is launched on a GPU; empty if graphs are captured."""
        if self.new_capture is None:
            return "enforce-eager"
        if self.obstacle:
            return self.obstacle
        if self.model.feature_layers:
            return "the proposer reads what is within the model"
        return "" if self._capturable else "modules may wait for the device"

    @property
    def sizes(self) -> GraphSizes:
        """Numbers of sequences with a graph; empty where each step is launched."""
        if self.reason_without_graphs:
            return GraphSizes()
        return GraphSizes.up_to(self._max_sequences)

    def feed(self, maker: RunnerMaker, cache: PagedCache) -> DeviceFeed:
        """Implements `DeviceSteps`."""
        del maker, cache
        return self.buffers()

    def buffers(self) -> DeviceFeed:
        """Allocates the input buffers of steps on a GPU."""
        scheduler, longest = self.config.scheduler, self.model.shape.max_model_len
        return DeviceFeed(
            self.device,
            max_tokens=scheduler.tokens_per_step,
            max_num_seqs=self._max_sequences,
            max_num_blocks=-(-longest // self.config.cache.block_size),
            sizes=self.sizes,
        )

    def forward(self, maker: RunnerMaker, feed: Feed) -> Forward:
        """Implements `DeviceSteps`."""
        del maker
        assert isinstance(feed, DeviceFeed)
        return self.graphed(feed) or self.model.forward

    def sampler(self, maker: RunnerMaker, state: BatchState) -> Sampler:
        """Implements `DeviceSteps`."""
        return make_sampler(maker, state)

    def draw_ahead(self, feed: Feed, sampler: StepSampler) -> DrawAhead | None:
        """Implements `DeviceSteps`: with asynchronous scheduling.

        Where requests go on whose logits are not finite, the host looks at each token
        before it is used.
        """
        allows = self.config.executor.on_non_finite == "allow"
        if not self.config.scheduler.async_scheduling or allows:
            return None
        assert isinstance(feed, DeviceFeed)
        assert isinstance(sampler, Sampler)
        return partial(drawn_ahead, feed, sampler)

    def graphed(self, feed: DeviceFeed) -> GraphedForward | None:
        """The model with graphs over a feed; None where each step is launched."""
        capturable = self._capturable
        if self.reason_without_graphs:
            return None
        assert capturable is not None
        assert self.new_capture is not None
        return GraphedForward(
            capturable,
            feed,
            self.sizes,
            self.new_capture(),
            longest=self.model.shape.max_model_len,
        )

    @property
    def _capturable(self) -> Decoder | None:
        forward = self.model.forward
        if isinstance(forward, Decoder) and forward.is_capturable:
            return forward
        return None

    @property
    def _max_sequences(self) -> int:
        """Maximum number of sequences in a step; each draft counts as one."""
        scheduler = self.config.scheduler
        if not self.most_drafts:
            return scheduler.max_num_seqs
        most = scheduler.max_num_seqs * (1 + self.most_drafts)
        return min(most, scheduler.tokens_per_step)
