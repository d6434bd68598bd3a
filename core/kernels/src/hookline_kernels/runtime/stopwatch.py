"""Measures how long a device computes, without waiting for it early."""

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Protocol

import torch

MOST_UNREAD = 2
"""Largest number of intervals that may be measured before the first of them is read."""


class Stopwatch(Protocol):
    """Measures one interval after the other."""

    def start(self) -> None: ...

    def stop(self) -> Callable[[], int]:
        """Ends the interval.

        Returns:
            Waits for the device to reach the end, and returns the time from the start,
            ns. Must be called before `MOST_UNREAD` more intervals begin.
        """
        ...


class HostStopwatch:
    """Stopwatch for synchronous computation: wall time."""

    def __init__(self) -> None:
        self._started = 0

    def start(self) -> None:
        self._started = time.monotonic_ns()

    def stop(self) -> Callable[[], int]:
        return (time.monotonic_ns() - self._started).__int__


class CudaStopwatch:
    """Stopwatch for asynchronous computation: CUDA events."""

    def __init__(self) -> None:
        pairs = [(_event(), _event()) for _ in range(MOST_UNREAD)]
        self._pairs = cycle(pairs)
        self._pair = pairs[-1]

    def start(self) -> None:
        self._pair = next(self._pairs)
        self._pair[0].record()

    def stop(self) -> Callable[[], int]:
        self._pair[1].record()
        return partial(_nanoseconds, *self._pair)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _nanoseconds(start: torch.cuda.Event, stop: torch.cuda.Event) -> int:
    stop.synchronize()
    milliseconds: float = start.elapsed_time(stop)
    return round(milliseconds * 1e6)


def stopwatch_for(device: torch.device) -> Stopwatch:
    return CudaStopwatch() if device.type == "cuda" else HostStopwatch()
