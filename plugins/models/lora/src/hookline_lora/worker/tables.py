"""What adapters add to a model's embedding, and have in place of its output layer."""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import torch

from hookline_lora.kernels.rows import StepRows

T = TypeVar("T")


class EmbeddingPart(NamedTuple):
    """An adapter's part of the embedding.

    Attributes:
        by_token: [tokens, rank].
        spread: [rank, width], with the adapter's scale.
    """

    by_token: torch.Tensor
    spread: torch.Tensor

    @property
    def num_bytes(self) -> int:
        """Bytes of memory."""
        return self.by_token.nbytes + self.spread.nbytes


class EmbeddingSlots:
    """The embeddings of the adapters in slots, on the model's device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._parts: dict[int, EmbeddingPart] = {}

    def set(self, slot: int, part: EmbeddingPart | None) -> None:
        """Puts an adapter's part into a slot; None empties it."""
        self._parts.pop(slot, None)
        if part is not None:
            self._parts[slot] = EmbeddingPart(
                part.by_token.to(self._device), part.spread.to(self._device)
            )

    def add(
        self, hidden: torch.Tensor, token_ids: torch.Tensor, rows: StepRows
    ) -> None:
        """Adds to embeddings [T, width] of tokens [T], in place."""
        for index, part in _found(self._parts, rows, self._device):
            own = part.by_token[token_ids[index]].float() @ part.spread.float()
            hidden[index] += own.to(hidden.dtype)


class HeadSlots:
    """The output layers that adapters in slots have, on the model's device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._weights: dict[int, torch.Tensor] = {}

    def set(self, slot: int, weight: torch.Tensor | None) -> None:
        """Puts a weight [vocabulary, width] into a slot; None empties it."""
        self._weights.pop(slot, None)
        if weight is not None:
            self._weights[slot] = weight.to(self._device)

    def replace(
        self, logits: torch.Tensor, states: torch.Tensor, rows: StepRows
    ) -> None:
        """Computes logits [W, vocabulary] of some states [W, width] anew, in place."""
        for index, weight in _found(self._weights, rows, self._device):
            logits[index] = states[index] @ weight.t()


def _found(
    parts: Mapping[int, T], rows: StepRows, device: torch.device
) -> list[tuple[torch.Tensor, T]]:
    """Returns the indices of the rows of each slot that has a part, and that part."""
    if not parts:
        return []
    return [
        (torch.from_numpy(index).to(device), parts[slot])
        for slot, index in rows.groups()
        if slot in parts
    ]
