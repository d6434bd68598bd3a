"""Tells each step which of its rows have an adapter."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.forward import Feed
from hookline.engine.worker.input_batch import Int64, StepInputs
from hookline_lora.kernels.rows import StepRows

BASE = -1
"""Stands for a slot where there is no adapter."""


@dataclass(frozen=True, slots=True)
class StepAdapters:
    """The adapters of a step.

    Attributes:
        rows: Those of its T tokens.
        sampled: Those of the W tokens whose logits are computed; None if no adapter
            changes logits.
    """

    rows: StepRows
    sampled: StepRows | None


class SlotColumn:
    """The slot of each row's request, and the memory that kernels read.

    Attributes:
        slots: [rows] int64; `BASE` for requests without an adapter.
        is_used: Whether any request has had an adapter.
        change_logits: Whether adapters in slots may change the output layer.
    """

    def __init__(
        self, num_rows: int, max_tokens: int, max_loras: int, device: torch.device
    ) -> None:
        self.slots = np.full(num_rows, BASE, np.int64)
        self.is_used = self.change_logits = False
        rows, sampled = (StepRows(max_tokens, max_loras, device) for _ in range(2))
        self._without_logits = StepAdapters(rows, None)
        self._all = StepAdapters(rows, sampled)

    def set(self, row: int, slot: int) -> None:
        """A request joins; its slot may be `BASE`."""
        self.slots[row] = slot
        self.is_used |= slot != BASE

    def adapters(
        self, inputs: StepInputs, logits_indices: Int64
    ) -> StepAdapters | None:
        """Returns the adapters of a step, valid until the next call; None without."""
        slots = self.slots[inputs.rows]
        if slots.max() == BASE:
            return None
        of_tokens = np.repeat(slots, inputs.query_lens)
        self._all.rows.fill(of_tokens)
        if not self.change_logits or self._all.sampled is None:
            return self._without_logits
        self._all.sampled.fill(of_tokens[logits_indices])
        return self._all


class AdapterFeed:
    """A feed whose batches have the adapters of their rows."""

    def __init__(self, feed: Feed, column: SlotColumn) -> None:
        self._feed, self._column = feed, column

    def batch(self, inputs: StepInputs, logits_indices: Int64) -> ForwardBatch:
        """Implements `Feed`."""
        batch = self._feed.batch(inputs, logits_indices)
        if not self._column.is_used:
            return batch
        adapters = self._column.adapters(inputs, logits_indices)
        return batch if adapters is None else replace(batch, adapters=adapters)
