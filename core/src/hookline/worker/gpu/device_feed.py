"""Brings a step's inputs to a GPU: through pinned memory, into buffers that stay."""

import torch

from hookline.worker.gpu.graph_sizes import GraphSizes
from hookline.worker.input_batch import Int32, Int64, StepInputs, one_by_one
from hookline.worker.step_tensors import StepTensors, metadata_of
from hookline_kernels import PagedMetadata

NOWHERE = -1
"""The slot of a row that only fills a graph up: nothing is written for it."""


class DeviceFeed:
    """Buffers for steps of a size, always at the same addresses.

    Copies do not wait for the device. Behind a step of single tokens the rows up to the
    size of its graph are filled up: token 0 at position 0 of a sequence of no tokens,
    written nowhere.
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
        """Takes the memory.

        Args:
            device: Where the model computes.
            max_tokens: Of a step.
            max_num_seqs: Of a step.
            max_num_blocks: Of a sequence.
            sizes: Of the graphs, if there are any.
        """
        self._sizes = sizes
        self._max_num_blocks = max_num_blocks
        self._token_ids = _Buffer(max_tokens, device)
        self._positions = _Buffer(max_tokens, device)
        self._slots = _Buffer(max_tokens, device)
        self._wanted = _Buffer(max_tokens + max_num_seqs, device)
        self._seq_lens = _Buffer(max_num_seqs, device)
        # Rows come packed and are spread out on the device, where they lie for good.
        self._packed_tables = _Buffer(max_num_seqs * max_num_blocks, device)
        self._tables = torch.zeros(
            max_num_seqs, max_num_blocks, dtype=torch.int64, device=device
        )
        self._sent = torch.cuda.Event() if device.type == "cuda" else None

    def tensors(self, inputs: StepInputs, wanted: Int64) -> StepTensors:
        if self._sent is not None:
            self._sent.synchronize()  # the pinned memory has been read
        inputs = one_by_one(inputs)  # so that steps with drafts are replayed, too
        count = len(inputs.rows)
        size = self._sizes.holding(count) if len(inputs.token_ids) == count else None
        rows = size or 0
        height, width = inputs.block_tables.shape
        packed = self._packed_tables.put(inputs.block_tables.ravel())
        tables = self._tables[:height, :width]
        tables.copy_(packed.view(height, width))
        tensors = StepTensors(
            self._token_ids.put(inputs.token_ids, rows),
            self._positions.put(inputs.positions, rows),
            self._wanted.put(wanted),
            metadata_of(
                inputs,
                slots=self._slots.put(inputs.slots, rows, NOWHERE),
                block_tables=tables,
                seq_lens=self._seq_lens.put(inputs.seq_lens, rows),
            ),
        )
        if self._sent is not None:
            self._sent.record()
        return tensors

    def rows(self, size: int, longest: int) -> StepTensors:
        """Whole buffers of a step of single tokens, for a graph to read.

        They are filled up from the first row on, and all tokens are wanted. No sequence
        that the graph is replayed with may have more than `longest` tokens.
        """
        slots, seq_lens = self._slots.tensor[:size], self._seq_lens.tensor[:size]
        slots.fill_(NOWHERE)
        seq_lens.zero_()
        return StepTensors(
            self._token_ids.tensor[:size].zero_(),
            self._positions.tensor[:size].zero_(),
            torch.arange(size, device=slots.device),
            PagedMetadata(
                slots=slots,
                block_tables=self._tables[:size],
                query_lens=[1] * size,
                seq_lens=[longest] * size,
                num_single=size,
                seq_lens_tensor=seq_lens,
            ),
        )


class _Buffer:
    """Numbers on a device, and pinned memory on their way there.

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
        """Copies some, and fillers up to `rows`; returns the numbers there."""
        count = len(numbers)
        end = max(count, rows)
        self._array[:count] = numbers
        self._array[count:end] = filler
        self.tensor[:end].copy_(self._pinned[:end], non_blocking=True)
        return self.tensor[:count]
