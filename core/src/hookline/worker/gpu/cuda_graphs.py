"""Steps of single tokens as CUDA graphs: one launch instead of hundreds."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from hookline.models.decoder import Decoder
from hookline.models.forward_output import WithHidden
from hookline.worker.gpu.device_feed import DeviceFeed
from hookline.worker.gpu.graph_sizes import GraphSizes
from hookline.worker.paged_cache import PagedCache
from hookline_kernels import PagedMetadata


class Graph(Protocol):
    """Something that was computed once and can be computed again.

    Attributes:
        output: Where each replay leaves its result.
    """

    output: torch.Tensor

    def replay(self) -> None:
        """Computes it from what its inputs hold now; does not wait for the end."""
        ...


Capture = Callable[[Callable[[], torch.Tensor]], Graph]
"""Makes a graph of a function; graphs of one `Capture` never run at the same time."""


class CudaGraph:
    """What `CudaCapture` makes."""

    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self._graph, self.output = graph, output

    def replay(self) -> None:
        self._graph.replay()


class CudaCapture:
    """Captures on the current device; its graphs share their memory."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], torch.Tensor]) -> CudaGraph:
        compute()  # compiles what is not compiled yet, which no capture may
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = compute()
        return CudaGraph(graph, output)


class GraphedForward:
    """Replays graphs of the layers for steps of single tokens, and launches all others.

    The output layer is launched while the layers run: its results are large, and would
    be held by each graph.

    Its inputs are the feed's tensors: graphs read the feed's buffers, which the feed
    has filled up to a graph's size.
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
        """Captures nothing: that happens when a cache is bound.

        Args:
            forward: One that can be captured.
            feed: Whose tensors it will be called with; made for the same sizes.
            sizes: Of the graphs.
            capture: Makes them.
            longest: No sequence will have more tokens.
        """
        self.name = f"{forward.name} with CUDA graphs"
        self.reason = forward.reason
        self._forward, self._feed, self._sizes = forward, feed, sizes
        self._capture, self._longest = capture, longest
        self._graphs: dict[int, Graph] = {}

    def bind(self, cache: PagedCache) -> None:
        """Captures all graphs over a cache; others share the memory of the first."""
        self._forward.bind(cache)
        self._graphs = {
            size: self.capture(size) for size in reversed(self._sizes.sizes)
        }

    @torch.inference_mode()
    def capture(self, size: int) -> Graph:
        """A graph over the cache that is bound to what it captures."""
        step = self._feed.rows(size, self._longest)
        hidden = self._forward.hidden
        return self._capture(
            partial(hidden, step.token_ids, step.positions, step.metadata)
        )

    def __call__(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        """As of `Forward`."""
        hidden = self._replayed(token_ids, wanted, metadata)
        if hidden is None:
            return self._forward(token_ids, positions, wanted, metadata)
        return self._forward.logits(hidden)

    def with_hidden(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        wanted: torch.Tensor,
        metadata: PagedMetadata,
    ) -> WithHidden:
        """As of `Forward`; the states are no graph's memory, which is written again."""
        hidden = self._replayed(token_ids, wanted, metadata)
        if hidden is None:
            return self._forward.with_hidden(token_ids, positions, wanted, metadata)
        states = self._forward.states(hidden)
        return WithHidden(self._forward.logits_of(states), states)

    def _replayed(
        self, token_ids: torch.Tensor, wanted: torch.Tensor, metadata: PagedMetadata
    ) -> torch.Tensor | None:
        """What a graph's layers make of a step; None if it has to be launched."""
        count = metadata.num_single
        size = self._sizes.holding(count)
        if size is None or not len(token_ids) == len(wanted) == count:
            return None
        graph = self._graphs[size]
        graph.replay()
        return graph.output[:count]
