"""Captures computations as CUDA graphs."""

from collections.abc import Callable
from typing import Protocol

import torch


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
