"""Replays steps of decodes as CUDA graphs: one launch instead of hundreds."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from hookline.models.decoder import Decoder
from hookline.models.forward_batch import ForwardBatch
from hookline.models.forward_output import ForwardOutput
from hookline.worker.gpu.device_feed import DeviceFeed
from hookline.worker.gpu.graph_sizes import GraphSizes
from hookline.worker.paged_cache import PagedCache


class Graph(Protocol):
    """A captured computation.

    Attributes:
        output: Output of each replay.
    """

    output: torch.Tensor

    def replay(self) -> None:
        """Launches the computation over its inputs; does not wait for the end."""
        ...


Capture = Callable[[Callable[[], torch.Tensor]], Graph]
"""Captures a function; graphs of one `Capture` never run at the same time."""


class CudaGraph:
    """A graph that `CudaCapture` captured."""

    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self._graph, self.output = graph, output

    def replay(self) -> None:
        self._graph.replay()


class CudaCapture:
    """Captures on the current device; its graphs share one memory pool."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], torch.Tensor]) -> CudaGraph:
        compute()  # compiles kernels, which is not allowed during capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = compute()
        return CudaGraph(graph, output)


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
        if not len(batch.token_ids) == len(batch.logits_indices) == count:
            return None
        graph = self._graphs[size]
        graph.replay()
        return graph.output[:count]
