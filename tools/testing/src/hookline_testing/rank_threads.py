"""Ranks that share a model, each in a thread of one process."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import torch

Result = TypeVar("Result")
_SECONDS = 60.0


@dataclass
class _Meeting:
    """Where ranks leave their parts for each other."""

    size: int
    parts: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size)

    def exchange(self, rank: int, part: torch.Tensor) -> list[torch.Tensor]:
        """Returns copies of all ranks' parts, in their order."""
        self.parts[rank] = part
        self.barrier.wait(_SECONDS)
        found = [self.parts[at].clone() for at in range(self.size)]
        self.barrier.wait(_SECONDS)  # nobody changes a part that is not copied yet
        return found


@dataclass
class ThreadGroup:
    """One rank's side of a group; implements `StepGroup`.

    Attributes:
        calls: Number of calls that it made.
    """

    meeting: _Meeting
    rank: int
    size: int
    is_recordable: bool = False
    is_capturable: bool = False
    calls: int = 0

    def all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.stack(self.meeting.exchange(self.rank, partial)).sum(0)

    def gather(self, part: torch.Tensor) -> torch.Tensor | None:
        self.calls += 1
        parts = self.meeting.exchange(self.rank, part)
        return torch.cat(parts, 1) if self.rank == 0 else None

    def end_step(self) -> int:
        """Measures nothing: a rank that does not come breaks the barrier."""
        return 0


def thread_groups(size: int) -> list[ThreadGroup]:
    """Returns each rank's side of a new group."""
    meeting = _Meeting(size)
    return [ThreadGroup(meeting, rank, size) for rank in range(size)]


def on_ranks(runs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Runs each rank in a thread, with one thread of torch; returns their results.

    Models are loaded before: `transformers` loads one at a time. A rank that raises
    leaves the others waiting for at most a minute; the first error is raised.
    """

    def with_one_thread(run: Callable[[], Result]) -> Result:
        torch.set_num_threads(1)
        return run()

    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(runs), "rank") as threads:
            return list(threads.map(with_one_thread, runs))
    finally:
        torch.set_num_threads(before)
