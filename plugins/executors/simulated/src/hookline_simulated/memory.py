"""A simulated KV cache: each slot holds a hash of all tokens up to it.

A step that reads other hashes than those of its tokens produces wrong tokens, so that
extensions that move KV blocks can be tested without a model.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hookline.engine.worker.extension import WorkerSide
from hookline.step import StepPlan

Int64 = npt.NDArray[np.int64]


def _nothing(layer: int) -> None:
    """Nobody is called around the layers."""


class SimulatedMemory:
    """[blocks, block size] hashes, which extensions see as one layer.

    Attributes:
        before: To be called with the layer's index before it is computed.
        after: Likewise afterwards.
    """

    before: Callable[[int], None] = staticmethod(_nothing)
    after: Callable[[int], None] = staticmethod(_nothing)

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._slots = np.zeros((num_blocks, block_size), np.int64)
        self._block_size = block_size

    def sides(self) -> Sequence[Sequence[Int64]]:
        """Returns the memory of its only layer."""
        return [[self._slots]]

    def call_around(
        self, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        """Calls both in each step, with the index of the only layer."""
        self.before, self.after = before, after

    def places(self, block_ids: Sequence[int], start: int, end: int) -> Int64:
        """Returns the slots of a sequence's positions `start` to `end` - 1."""
        at = np.arange(start, end)
        return np.asarray(block_ids)[at // self._block_size] * self._block_size + (
            at % self._block_size
        )

    def free(self) -> None:
        """Drops the numbers: all are zeros."""
        self._slots.fill(0)

    @property
    def slots(self) -> Int64:
        """[blocks × block size] view of all slots."""
        return self._slots.reshape(-1)


class SimulatedCache:
    """Simulated KV of the requests in the batch, moved by extensions.

    Attributes:
        sections: What the extensions tell of it.
    """

    def __init__(self, memory: SimulatedMemory, sides: Sequence[WorkerSide]) -> None:
        """Takes the sides of extensions that have been shown the memory."""
        self._memory = memory
        self._sides = sides
        self.sections: dict[str, object] = {}
        for side in sides:
            side.describe(self.sections)
        self._blocks: dict[int, list[int]] = {}
        self._numbers: dict[int, list[int]] = {}
        self._written: dict[int, int] = {}

    def start_step(self, plan: StepPlan) -> None:
        """Applies a plan's new blocks, once extensions have begun the step."""
        for side in self._sides:
            side.started(plan)
        self._memory.before(0)
        for admitted in plan.admitted:
            self._blocks[admitted.request_id] = list(admitted.block_ids)
            self._numbers[admitted.request_id] = []
            self._written[admitted.request_id] = admitted.num_computed_tokens
        for request_id, block_ids in plan.new_block_ids.items():
            self._blocks[request_id] += block_ids

    def write(self, request_id: int, token_ids: Sequence[int], end: int) -> None:
        """Writes the hashes of a request's positions before `end`."""
        numbers = self._numbers[request_id]
        for token in token_ids[len(numbers) : end]:
            last = numbers[-1] if numbers else 0
            digest = blake2b(f"{last},{token}".encode(), digest_size=8).digest()
            numbers.append(int.from_bytes(digest, "little", signed=True))
        start = self._written[request_id]
        self._written[request_id] = max(start, end)
        places = self._memory.places(self._blocks[request_id], start, end)
        self._memory.slots[places] = numbers[start:end]

    def is_right(self, request_id: int, end: int) -> bool:
        """Whether a request's positions before `end` hold the hashes of its tokens."""
        places = self._memory.places(self._blocks[request_id], 0, end)
        own = np.array(self._numbers[request_id][:end], np.int64)
        return bool((self._memory.slots[places] == own).all())

    def finish_step(self, sections: dict[str, object]) -> None:
        """Has extensions end the step, after all reads and writes."""
        self._memory.after(0)
        for side in self._sides:
            side.ended(sections)

    def free(self) -> None:
        """Drops the contents."""
        self._memory.free()

    def close(self) -> None:
        for side in self._sides:
            side.close()
