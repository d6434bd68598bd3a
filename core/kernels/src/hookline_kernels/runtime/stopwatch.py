"""Measures how long a device computes, without waiting for it early."""

import time
from typing import Protocol

import torch


class Stopwatch(Protocol):
    """Measures one interval at a time."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def nanoseconds(self) -> int:
        """Returns the time from start to stop; waits for the device to reach stop."""
        ...


class HostStopwatch:
    """Stopwatch for synchronous computation: wall time."""

    def __init__(self) -> None:
        self._started = self._taken = 0

    def start(self) -> None:
        self._started = time.monotonic_ns()

    def stop(self) -> None:
        self._taken = time.monotonic_ns() - self._started

    def nanoseconds(self) -> int:
        return self._taken


class CudaStopwatch:
    """Stopwatch for asynchronous computation: CUDA events."""

    def __init__(self) -> None:
        self._start = torch.cuda.Event(enable_timing=True)
        self._stop = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self._start.record()

    def stop(self) -> None:
        self._stop.record()

    def nanoseconds(self) -> int:
        self._stop.synchronize()
        milliseconds: float = self._start.elapsed_time(self._stop)
        return round(milliseconds * 1e6)


def stopwatch_for(device: torch.device) -> Stopwatch:
    return CudaStopwatch() if device.type == "cuda" else HostStopwatch()
