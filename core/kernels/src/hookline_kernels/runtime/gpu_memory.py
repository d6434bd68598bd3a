"""Measures what takes a GPU's memory, and what is left for the KV cache."""

import gc
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from hookline_kernels.gpu.graph_capture import Graph

_MIB = 1 << 20
OWN_OUTSIDE = 1 << 30
"""Most that CUDA and its libraries take for one process beside what torch counts."""


class NoRoomError(Exception):
    """A device has no memory left for the KV cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """Bytes of a device's memory, by use.

    Attributes:
        total: Size of the device's memory.
        outside: Used by other programs, the driver and libraries.
        weights: Held by this process before its largest step.
        activations: Peak of that step, beyond the weights and its cache.
        graphs: Estimate for all CUDA graphs.
    """

    total: int
    outside: int
    weights: int
    activations: int
    graphs: int

    def room(self, utilization: float) -> int:
        """Returns the bytes for the KV cache within this share of the device.

        Raises:
            NoRoomError: Nothing is left.
        """
        taken = self.outside + self.weights + self.activations + self.graphs
        left = int(self.total * utilization) - taken
        if left <= 0:
            parts = ", ".join(
                f"{name} {size // _MIB} MiB"
                for name, size in (
                    ("weights", self.weights),
                    ("activations", self.activations),
                    ("CUDA graphs", self.graphs),
                    ("others", self.outside),
                )
            )
            raise NoRoomError(
                f"{utilization} of {self.total // _MIB} MiB leaves no room for the KV "
                f"cache: {parts}. Raise it, or lower max-num-batched-tokens or "
                "max-num-seqs",
            )
        return left


class Profiled(NamedTuple):
    """The largest steps, which have been run to measure their memory.

    Attributes:
        cache_bytes: Size of the cache that they used.
        graphs: Captures one graph each, the largest size first; empty without graphs.
    """

    cache_bytes: int
    graphs: Sequence[Callable[[], Graph]] = ()


def measure(
    device: torch.device, run: Callable[[], Profiled], *, is_shared: bool = False
) -> GpuMemory:
    """Runs the largest steps, captures two graphs, and reads the device's counters.

    Args:
        device: The device.
        run: Runs the largest steps.
        is_shared: Whether other engines take parts of the device meanwhile, each within
            its own share: what they take is not counted.
    """
    _settle(device)
    weights = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    profiled = run()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device)
    _settle(device)
    free, total = torch.cuda.mem_get_info(device)
    outside = total - free - torch.cuda.memory_reserved(device)
    if is_shared:
        outside = min(outside, OWN_OUTSIDE)
    two = _take_two(device, profiled.graphs, is_shared=is_shared)
    graphs = graph_bytes(*two, len(profiled.graphs))
    activations = peak - weights - profiled.cache_bytes
    del profiled
    _settle(device)
    return GpuMemory(
        total=total,
        outside=outside,
        weights=weights,
        activations=activations,
        graphs=graphs,
    )


def graph_bytes(first: int, second: int, count: int) -> int:
    """Estimates the bytes of `count` graphs; the first allocates the shared pool."""
    return max(0, first) + max(0, second) * max(0, count - 1)


def _take_two(
    device: torch.device, graphs: Sequence[Callable[[], Graph]], *, is_shared: bool
) -> tuple[int, int]:
    """Bytes that the first graph takes, and that the next one takes.

    On a shared device these are torch's alone, without CUDA's own of a graph.
    """

    def room() -> int:
        if is_shared:
            return -torch.cuda.memory_reserved(device)
        return torch.cuda.mem_get_info(device)[0]

    kept: list[Graph] = []
    left = [room()]
    for capture in graphs[:2]:
        kept.append(capture())
        _settle(device)
        left.append(room())
    first, second, *_ = (*(a - b for a, b in itertools.pairwise(left)), 0, 0)
    return first, second


def _settle(device: torch.device) -> None:
    """Frees cached memory that is not in use."""
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
