"""Which rows of a step belong to which adapter, at addresses that never change."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Ints = npt.NDArray[np.int32]


class StepRows:
    """The rows of a step that have an adapter, grouped by its slot.

    Kernels read everything from this memory, counts too, so that a recorded step can be
    replayed with any adapters. One thread fills it between steps.

    Attributes:
        max_tokens: Most tokens of a step.
        max_loras: Number of slots.
        counts: [2]: the number of rows that have an adapter, and of their groups.
        starts: [max_loras + 1] where each group begins in `order`; then the last's end.
        slots: [max_loras] the slot of each group.
        order: [max_tokens] indices of the rows, group by group, ascending in each.
        memory: int32, all of these in this order, where kernels read them.
    """

    def __init__(
        self, max_tokens: int, max_loras: int, device: torch.device | str = "cpu"
    ) -> None:
        """Allocates the memory, for a step without adapters."""
        self.max_tokens, self.max_loras = max_tokens, max_loras
        is_cpu = torch.device(device).type == "cpu"
        # One piece, so that one copy brings it to a device.
        size = 2 + max_loras + 1 + max_loras + max_tokens
        # Pageable: a copy has read it when the call returns, and it can be filled anew.
        self._host = torch.zeros(size, dtype=torch.int32)
        self.memory = self._host if is_cpu else self._host.to(device)
        ints: Ints = self._host.numpy()
        ends = np.cumsum([2, max_loras + 1, max_loras])
        self.counts, self.starts, self.slots, self.order = np.split(ints, ends)

    def fill(self, slot_of_token: npt.NDArray[np.integer[Any]]) -> None:
        """Takes the adapters of a step.

        Args:
            slot_of_token: [T] slot of each token's adapter; −1 for the base model.

        Raises:
            ValueError: There are more tokens than `max_tokens`, or no such slot.
        """
        if len(slot_of_token) > self.max_tokens:
            raise ValueError(
                f"a step has at most {self.max_tokens} tokens, not {len(slot_of_token)}"
            )
        found = np.flatnonzero(slot_of_token >= 0)
        number = len(found)
        of_rows = slot_of_token[found]
        if number and int(of_rows.max()) >= self.max_loras:
            raise ValueError(f"slot {of_rows.max()} is not below {self.max_loras}")
        by_slot = np.argsort(of_rows, kind="stable")
        sizes = np.bincount(of_rows, minlength=self.max_loras)
        slots = np.flatnonzero(sizes)
        groups = len(slots)
        self.counts[:] = number, groups
        self.order[:number] = found[by_slot]
        self.slots[:groups] = slots
        self.starts[0] = 0
        np.cumsum(sizes[slots], out=self.starts[1 : groups + 1])
        if self.memory is not self._host:
            self.memory.copy_(self._host)

    @property
    def is_empty(self) -> bool:
        """Whether no row has an adapter."""
        return int(self.counts[0]) == 0

    def groups(self) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """Returns each group's slot and the indices of its rows."""
        found = []
        for group in range(int(self.counts[1])):
            rows = self.order[self.starts[group] : self.starts[group + 1]]
            found.append((int(self.slots[group]), rows.astype(np.int64)))
        return found
