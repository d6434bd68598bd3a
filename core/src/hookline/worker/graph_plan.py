"""Decides which steps on a GPU are replayed from CUDA graphs."""

from dataclasses import dataclass

from hookline.config import EngineConfig
from hookline.kv_transfer.connector import WorkerConnector, needs_layers
from hookline.models.decoder import Decoder
from hookline.worker.feed import Feed
from hookline.worker.gpu.cuda_graphs import GraphedForward
from hookline.worker.gpu.device_feed import DeviceFeed
from hookline.worker.loaded_model import LoadedModel
from hookline.worker.machine import Machine
from hookline_kernels.gpu.graph_sizes import GraphSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPlan:
    """The graphs of a loaded model, and the input buffers that they read.

    Attributes:
        config: The engine's configuration.
        machine: The model's machine.
        model: The loaded model.
        connector: Moves KV; None without a KV connector.
        most_drafts: Maximum number of drafts of a request in a step.
    """

    config: EngineConfig
    machine: Machine
    model: LoadedModel
    connector: WorkerConnector | None
    most_drafts: int

    @property
    def reason_without(self) -> str:
        """Why each step is launched on a GPU; empty if graphs are captured."""
        if self.machine.new_capture is None:
            return "enforce-eager"
        if needs_layers(self.connector):
            return "a KV connector is called between the layers"
        if self.model.feature_layers:
            return "the proposer reads what is within the model"
        return "" if self._capturable else "modules may wait for the device"

    @property
    def sizes(self) -> GraphSizes:
        """Numbers of sequences with a graph; empty where each step is launched."""
        if self.reason_without:
            return GraphSizes()
        return GraphSizes.up_to(self._max_sequences)

    def feed(self) -> DeviceFeed:
        """Allocates the input buffers of steps on a GPU."""
        scheduler = self.config.scheduler
        return DeviceFeed(
            self.machine.platform.device,
            max_tokens=scheduler.max_num_batched_tokens,
            max_num_seqs=self._max_sequences,
            max_num_blocks=-(-self.model.max_model_len // self.config.cache.block_size),
            sizes=self.sizes,
        )

    def forward(self, feed: Feed) -> GraphedForward | None:
        """The model with graphs over a feed; None where each step is launched."""
        capturable = self._capturable
        if not isinstance(feed, DeviceFeed) or self.reason_without:
            return None
        assert capturable is not None
        assert self.machine.new_capture is not None
        return GraphedForward(
            capturable,
            feed,
            self.sizes,
            self.machine.new_capture(),
            longest=self.model.max_model_len,
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
        return min(most, scheduler.max_num_batched_tokens)
