"""How many tokens the experts of each rank have computed, in shared memory."""

from hookline_ranks.processes.shared_memory import SharedMemory

_BYTES = 8


def counts_bytes(world_size: int) -> int:
    """Returns the size of the memory of `ExpertCounts`."""
    return world_size * _BYTES


class ExpertCounts:
    """A number for each rank, which only this rank changes; no lock is needed.

    The sum over ranks behind the experts orders memory: once the output rank has
    computed a step, what other ranks have counted of it is there.
    """

    def __init__(self, memory: SharedMemory) -> None:
        """Attaches to memory of `counts_bytes`, in which all numbers are 0 at first."""
        self._memory = memory  # mapped as long as this lives
        self._counts = memory.view.cast("q")
        self._taken = tuple(self._counts)

    def add(self, rank: int, tokens: int) -> None:
        """Adds to a rank's number; for this rank alone."""
        self._counts[rank] += tokens

    def take(self) -> tuple[int, ...]:
        """Returns by how much each rank's number has grown since the last call."""
        before, self._taken = self._taken, tuple(self._counts)
        return tuple(now - then for now, then in zip(self._taken, before, strict=True))
