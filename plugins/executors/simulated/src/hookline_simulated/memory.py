"""A simulated KV cache: each slot holds a hash of all tokens up to it.

A step that reads other hashes than those of its tokens produces wrong tokens, so that
connectors can be tested without a model.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hookline.kv_transfer.blocks import Bytes
from hookline.kv_transfer.orders import TransferReport
from hookline.step.plan import StepPlan
from hookline.worker.transfers.transferring import Transferring

Int64 = npt.NDArray[np.int64]


class SimulatedMemory:
    """[blocks, block size] hashes, which connectors see as one layer."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._slots = np.zeros((num_blocks, block_size), np.int64)
        self._num_blocks, self._block_size = num_blocks, block_size

    @property
    def block_bytes(self) -> int:
        return self._block_size * self._slots.itemsize

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        target[list(rows)] = self._slots[list(block_ids)].view(np.uint8)

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        data = np.ascontiguousarray(source[list(rows)])
        self._slots[list(block_ids)] = data.view(np.int64)

    def places(self, block_ids: Sequence[int], start: int, end: int) -> Int64:
        """Returns the slots of a sequence's positions `start` to `end` - 1."""
        at = np.arange(start, end)
        return np.asarray(block_ids)[at // self._block_size] * self._block_size + (
            at % self._block_size
        )

    def release(self) -> None:
        """Drops the numbers; nothing may be read or written until `restore`."""
        self._slots = np.zeros((0, self._block_size), np.int64)

    def restore(self) -> None:
        """Allocates the memory again, all zeros."""
        self._slots = np.zeros((self._num_blocks, self._block_size), np.int64)

    @property
    def slots(self) -> Int64:
        """[blocks × block size] view of all slots."""
        return self._slots.reshape(-1)


class SimulatedCache:
    """Simulated KV of the requests in the batch, moved by a connector.

    Attributes:
        layout: Layout of the blocks.
    """

    def __init__(self, memory: SimulatedMemory, transferring: Transferring) -> None:
        self._memory = memory
        self._transferring = transferring
        self.layout = transferring.layout
        self._blocks: dict[int, list[int]] = {}
        self._numbers: dict[int, list[int]] = {}
        self._written: dict[int, int] = {}

    def begin(self, plan: StepPlan) -> None:
        """Applies a plan's new blocks and starts its transfers."""
        self._transferring.begin(plan.transfers)
        self._transferring.before_attention(0)
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

    def end(self) -> TransferReport:
        """Ends the step's transfers, after all reads and writes."""
        self._transferring.after_attention(0)
        return self._transferring.end()

    def release(self) -> None:
        """Drops the contents; nothing may be read or written until `restore`."""
        self._memory.release()

    def restore(self) -> None:
        """Allocates the memory again, all zeros."""
        self._memory.restore()

    def close(self) -> None:
        self._transferring.close()
