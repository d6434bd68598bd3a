"""Copies a step's inputs to a GPU, through pinned memory into fixed buffers."""

import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.input_batch import Int32, Int64, StepInputs
from hookline_kernels.gpu.graph_sizes import GraphSizes
from hookline_models.machines.host_feed import count_decodes, one_by_one

NOWHERE = -1
"""Slot of a row that only pads a graph's batch: nothing is written for it."""


class DeviceFeed:
    """Buffers for steps up to a size, always at the same addresses.

    Copies do not wait for the device. Steps of decodes are padded to the size of their
    graph: with token 0 at position 0 of a request of no tokens, written nowhere.
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
        self._token_ids = _Buffer(max_tokens, device)
        self._positions = _Buffer(max_tokens, device)
        self._slots = _Buffer(max_tokens, device)
        self._logits_indices = _Buffer(max_tokens + max_num_seqs, device)
        self._seq_lens = _Buffer(max_num_seqs, device)
        # Rows arrive packed, and are spread over the fixed table on the device.
        self._packed_tables = _Buffer(max_num_seqs * max_num_blocks, device)
        self._tables = torch.zeros(
            max_num_seqs, max_num_blocks, dtype=torch.int64, device=device
        )
        self._sent = torch.cuda.Event() if device.type == "cuda" else None

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Implements `Feed`; drafts become decodes, so that graphs replay them, too."""
        if self._sent is not None:
            self._sent.synchronize()  # the last step's pinned memory has been read
        inputs = one_by_one(inputs)
        count = len(inputs.rows)
        size = self._sizes.holding(count) if len(inputs.token_ids) == count else None
        rows = size or 0
        height, width = inputs.block_tables.shape
        packed = self._packed_tables.put(inputs.block_tables.ravel())
        tables = self._tables[:height, :width]
        tables.copy_(packed.view(height, width))
        batch = ForwardBatch(
            token_ids=self._token_ids.put(inputs.token_ids, rows),
            positions=self._positions.put(inputs.positions, rows),
            logits_indices=self._logits_indices.put(logits_indices),
            slot_mapping=self._slots.put(inputs.slots, rows, NOWHERE),
            block_tables=tables,
            query_lens=inputs.query_lens.tolist(),
            seq_lens=inputs.seq_lens.tolist(),
            num_decodes=count_decodes(inputs),
            seq_lens_tensor=self._seq_lens.put(inputs.seq_lens, rows),
        )
        if self._sent is not None:
            self._sent.record()
        return batch

    def captured(self, size: int, longest: int) -> ForwardBatch:
        """Returns the batch that a graph of `size` decodes reads: whole buffers.

        All rows are padding at first, and all have logits. No request that the graph is
        replayed with may have more than `longest` tokens.
        """
        slots, seq_lens = self._slots.tensor[:size], self._seq_lens.tensor[:size]
        slots.fill_(NOWHERE)
        seq_lens.zero_()
        return ForwardBatch(
            token_ids=self._token_ids.tensor[:size].zero_(),
            positions=self._positions.tensor[:size].zero_(),
            logits_indices=torch.arange(size, device=slots.device),
            slot_mapping=slots,
            block_tables=self._tables[:size],
            query_lens=[1] * size,
            seq_lens=[longest] * size,
            num_decodes=size,
            seq_lens_tensor=seq_lens,
        )


class _Buffer:
    """Numbers on a device, and pinned memory for their copies.

    Attributes:
        tensor: [size] int64 on the device.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        pinned = torch.zeros(size, dtype=torch.int64, pin_memory=device.type == "cuda")
        self._pinned, self._array = pinned, pinned.numpy()
        self.tensor = torch.zeros(size, dtype=torch.int64, device=device)

    def put(
        self, numbers: Int64 | Int32, rows: int = 0, filler: int = 0
    ) -> torch.Tensor:
        """Copies numbers, padded to `rows`; returns them on the device, unpadded."""
        count = len(numbers)
        end = max(count, rows)
        self._array[:count] = numbers
        self._array[count:end] = filler
        self.tensor[:end].copy_(self._pinned[:end], non_blocking=True)
        return self.tensor[:count]
