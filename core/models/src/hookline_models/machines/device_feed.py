"""Copies a step's inputs to a GPU, and its tokens back, through pinned memory."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_models.machines.host_feed import count_decodes, one_by_one

NOWHERE = -1
"""Slot of a row that only pads a graph's batch: nothing is written for it."""
_ALIGNED = 16
"""Numbers; kernels are compiled once where all addresses are aligned alike."""
_SLOTS = 2
"""Place of the slots among the padded inputs."""
_MOST_UNREAD = 2
"""Largest number of steps whose tokens are not read yet."""


class DeviceFeed:
    """Buffers for steps up to a size; those of a graph are always at its addresses.

    Copies do not wait for the device: one brings all inputs of a step. Steps of decodes
    are padded to the size of their graph: with token 0 at position 0 of a request of no
    tokens, written nowhere.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        max_tokens: int,
        max_num_seqs: int,
        max_num_blocks: int,
        sizes: GraphSizes,
    ) -> None:
        """Allocates the buffers.

        Args:
            device: Device of the model.
            max_tokens: Most tokens of a step.
            max_num_seqs: Most requests of a step.
            max_num_blocks: Most blocks of a request.
            sizes: Numbers of decodes with a graph; may be empty.
        """
        self._sizes = sizes
        room = 4 * max_tokens + max_num_seqs * (2 + max_num_blocks) + 6 * _ALIGNED
        self._inputs = _Inputs(room, device)
        # Rows arrive packed, and are spread over the fixed table on the device.
        self._tables = torch.zeros(
            max_num_seqs, max_num_blocks, dtype=torch.int64, device=device
        )
        self._kept = torch.zeros(max_num_seqs, dtype=torch.int64, device=device)
        results = [_Result(max_num_seqs, device) for _ in range(_MOST_UNREAD)]
        self._results = cycle(results)

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Implements `Feed`; drafts become decodes, so that graphs replay them, too."""
        inputs = one_by_one(inputs)
        count, height = len(inputs.token_ids), len(inputs.rows)
        size = self._sizes.holding(height) if count == height else None
        *padded, logits_at, packed = self._inputs.put(
            size or 0,
            (inputs.token_ids, inputs.positions, inputs.slots, inputs.seq_lens),
            (logits_indices, inputs.block_tables.ravel()),
        )
        token_ids, positions, slots, seq_lens = padded
        if size is not None:
            token_ids, positions, slots = (each[:count] for each in padded[:3])
            seq_lens = seq_lens[:height]
        width = inputs.block_tables.shape[1]
        tables = self._tables[:height, :width]
        tables.copy_(packed.view(height, width))
        if inputs.token_ids.min() < 0:
            # Imported here: engines on CPUs import this module, but not Triton.
            from hookline_kernels.gpu.kept_tokens import take_kept  # noqa: PLC0415

            take_kept(token_ids, self._kept)
        return ForwardBatch(
            token_ids=token_ids,
            positions=positions,
            logits_indices=logits_at,
            slot_mapping=slots,
            block_tables=tables,
            query_lens=inputs.query_lens.tolist(),
            seq_lens=inputs.seq_lens.tolist(),
            num_decodes=count_decodes(inputs),
            seq_lens_tensor=seq_lens,
        )

    def keep(self, token_ids: torch.Tensor) -> Callable[[], Int64]:
        """Keeps the tokens of a step, for which −1 − i stands in the next one's inputs.

        Args:
            token_ids: [S] on the device, below 0 where there is none.

        Returns:
            Waits for them and returns them: [S]. To be called before two more steps
            are kept.
        """
        torch.clamp(token_ids, min=0, out=self._kept[: len(token_ids)])
        return next(self._results).copy(token_ids)

    def captured(self, size: int, longest: int) -> ForwardBatch:
        """Returns the batch that a graph of `size` decodes reads: whole buffers.

        All rows are padding at first, and all have logits. No request that the graph is
        replayed with may have more than `longest` tokens.
        """
        nothing = np.zeros(0, np.int64)
        token_ids, positions, slots, seq_lens = self._inputs.put(
            size, [nothing] * 4, ()
        )
        return ForwardBatch(
            token_ids=token_ids,
            positions=positions,
            logits_indices=torch.arange(size, device=slots.device),
            slot_mapping=slots,
            block_tables=self._tables[:size],
            query_lens=[1] * size,
            seq_lens=[longest] * size,
            num_decodes=size,
            seq_lens_tensor=seq_lens,
        )


class _Inputs:
    """The inputs of a step, one behind the other, in pinned memory and on a device.

    Those of two steps of one padded size have the same addresses.
    """

    def __init__(self, room: int, device: torch.device) -> None:
        """Allocates both; `room` is the most numbers of a step."""
        self._pinned, self._array = _pinned(room, device)
        self._tensor = torch.zeros(room, dtype=torch.int64, device=device)
        self._sent = torch.cuda.Event() if device.type == "cuda" else None

    def put(
        self,
        size: int,
        padded: Sequence[Int64],
        others: Sequence[npt.NDArray[np.integer[Any]]],
    ) -> list[torch.Tensor]:
        """Copies arrays to the device without waiting for it.

        Args:
            size: Least length of padded arrays on the device.
            padded: Token ids, positions, slots and lengths, in this order.
            others: Arrays whose addresses may change.

        Returns:
            All of them on the device, int64, with their padding.
        """
        if self._sent is not None:
            self._sent.synchronize()  # the last step's pinned memory has been read
        at, places = 0, []
        for index, numbers in enumerate((*padded, *others)):
            end = at + len(numbers)
            self._array[at:end] = numbers
            last = max(end, at + size) if index < len(padded) else end
            if last > end:
                self._array[end:last] = NOWHERE if index == _SLOTS else 0
            places.append((at, last))
            at = -(-last // _ALIGNED) * _ALIGNED
        self._tensor[:at].copy_(self._pinned[:at], non_blocking=True)
        if self._sent is not None:
            self._sent.record()
        return [self._tensor[start:end] for start, end in places]


class _Result:
    """Pinned memory for numbers that a device computes."""

    def __init__(self, size: int, device: torch.device) -> None:
        self._pinned, self._array = _pinned(size, device)
        self._there = torch.cuda.Event() if device.type == "cuda" else None

    def copy(self, numbers: torch.Tensor) -> Callable[[], Int64]:
        """Has the device copy [S] numbers; returns what waits for them."""
        self._pinned[: len(numbers)].copy_(numbers, non_blocking=True)
        if self._there is not None:
            self._there.record()
        return partial(self._wait, len(numbers))

    def _wait(self, count: int) -> Int64:
        if self._there is not None:
            self._there.synchronize()
        return self._array[:count].copy()


def _pinned(size: int, device: torch.device) -> tuple[torch.Tensor, Int64]:
    """Allocates memory that a device copies from and to by itself; two views of it."""
    pinned = torch.zeros(size, dtype=torch.int64, pin_memory=device.type == "cuda")
    return pinned, pinned.numpy()
