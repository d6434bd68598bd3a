"""Replays steps of decodes as CUDA graphs: one launch instead of hundreds."""

from functools import partial

import torch

from hookline.engine.decoder import Decoder
from hookline.engine.decoder.forward_batch import ForwardBatch, ForwardOutput
from hookline.engine.worker.paged_cache import PagedCache
from hookline_kernels.gpu.graph_capture import Capture, Graph
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_models.machines.device_feed import DeviceFeed


class GraphedForward:
    """Replays graphs of the layers for steps of decodes, and launches all other steps.

    The output layer is launched while the layers run: each graph would hold its large
    result.

    Graphs read the feed's buffers, which the feed pads to a graph's size.
    """

    def __init__(
        self,
        forward: Decoder,
        feed: DeviceFeed,
        sizes: GraphSizes,
        capture: Capture,
        *,
        longest: int,
    ) -> None:
        """Captures nothing before a cache is bound.

        Args:
            forward: One that can be captured.
            feed: Makes the batches of all calls; made for the same sizes.
            sizes: Numbers of decodes to capture.
            capture: Captures graphs.
            longest: Most tokens of a request.
        """
        self.name = f"{forward.name} with CUDA graphs"
        self.reason = forward.reason
        self._forward, self._feed, self._sizes = forward, feed, sizes
        self._capture, self._longest = capture, longest
        self._graphs: dict[int, Graph] = {}

    def bind(self, cache: PagedCache) -> None:
        """Captures all graphs over a cache; the largest comes first and is shared."""
        self._forward.bind(cache)
        self._graphs = {
            size: self.capture(size) for size in reversed(self._sizes.sizes)
        }

    @torch.inference_mode()
    def capture(self, size: int) -> Graph:
        """Captures the layers for `size` decodes over the bound cache."""
        batch = self._feed.captured(size, self._longest)
        return self._capture(partial(self._forward.hidden, batch))

    def __call__(self, batch: ForwardBatch) -> torch.Tensor:
        """Implements `Forward`."""
        hidden = self._replayed(batch)
        return self._forward(batch) if hidden is None else self._forward.logits(hidden)

    def with_hidden(self, batch: ForwardBatch) -> ForwardOutput:
        """Implements `Forward`; the states are not a graph's memory."""
        hidden = self._replayed(batch)
        if hidden is None:
            return self._forward.with_hidden(batch)
        states = self._forward.states(hidden)
        return ForwardOutput(self._forward.logits_of(states), states)

    def _replayed(self, batch: ForwardBatch) -> torch.Tensor | None:
        """The layers' output by a graph; None if the step must be launched."""
        count = batch.num_decodes
        size = self._sizes.holding(count)
        if size is None or batch.intermediate is not None:
            return None
        if batch.adapters is not None:
            return None
        if not len(batch.token_ids) == len(batch.logits_indices) == count:
            return None
        graph = self._graphs[size]
        graph.replay()
        return graph.output[:count]
