"""The adapters' part of one product, on CPUs."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline_kernels.cpu.elements import SCALARS
from hookline_kernels.cpu.launching import numbers_of
from hookline_kernels.cpu.system_calls import address_in_libc
from hookline_kernels.cpu.vector_panels import has_quick_pairs
from hookline_kernels.failure import KernelError
from hookline_lora.kernels.cpu_kernel import FEW, MOST_RANKS, adapting_kernel
from hookline_lora.kernels.cpu_parts import HEAD, PART, SLICE, SLOT
from hookline_lora.kernels.cpu_tiles import FLOATS, PAIRS, PANEL, STEP_BYTES, WIDENED
from hookline_lora.kernels.parts import Matrices, PackedParts
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import Slice

_RANK = 16
"""A usual rank, by which the number of threads is chosen."""


class CpuSite:
    """Adds to a product's output by one kernel call. For one thread at a time."""

    def __init__(
        self,
        in_features: int,
        slices: Sequence[Slice],
        dtype: torch.dtype,
        max_loras: int,
        *,
        pairs: bool | None = None,
    ) -> None:
        """Compiles the kernel if it is not compiled yet.

        `pairs` multiplies bfloat16 in pairs; None does where that is quick.

        Raises:
            KernelError: No kernel supports this dtype or machine.
        """
        if dtype not in SCALARS:
            raise KernelError(f"no kernel adds adapters in {dtype}")
        self._inputs, self._slices, self._dtype = in_features, slices, dtype
        form = FLOATS if dtype == torch.float32 else WIDENED
        if dtype == torch.bfloat16 and (has_quick_pairs() if pairs is None else pairs):
            form = PAIRS
        self._kernel = adapting_kernel(form)
        self._slot = SLOT + PART * len(slices)
        self._table = np.zeros(HEAD + max_loras * self._slot, np.int64)
        self._places = np.zeros((len(slices), SLICE), np.int64)
        for row, each in zip(self._places, slices, strict=True):
            row[:] = *each, -(-each.width // PANEL)
        self._outputs = max(each.end for each in slices)
        self._kept: dict[int, PackedParts] = {}
        self._sums = torch.empty(0)
        self._elements = _RANK * sum(in_features + each.width for each in slices)
        self._numbers = numbers_of(
            *(self._table.ctypes.data, 0, 0, 0, 0, 0, 0, in_features, 0),
            *(self._places.ctypes.data, len(slices), address_in_libc("sched_yield")),
        )

    def packed(self, parts: Sequence[Matrices | None]) -> PackedParts:
        """Copies matrices into the kernels' layout; any thread may.

        Raises:
            ValueError: They have too many ranks.
        """
        found = [self._pack_one(each) for each in parts]
        ranks = tuple(0 if each is None else len(each.a) for each in found)
        if sum(ranks) > MOST_RANKS:
            raise ValueError(
                f"an adapter's layers have at most {MOST_RANKS} ranks together, "
                f"not {sum(ranks)}"
            )
        sides = [each.a for each in found if each is not None]
        joined = torch.cat(sides) if sides else torch.empty(0, dtype=self._dtype)
        return PackedParts(
            joined, tuple(None if each is None else each.b for each in found), ranks
        )

    def _pack_one(self, part: Matrices | None) -> Matrices | None:
        if part is None:
            return None
        a, b = (each.to(self._dtype) for each in part)
        group = 1 if self._dtype == torch.float32 else 2
        more_inputs = -self._inputs % (STEP_BYTES // self._dtype.itemsize)
        rank = -(-len(a) // group) * group
        panels = -(-len(b) // PANEL)
        more_ranks, more_outputs = rank - len(a), panels * PANEL - len(b)
        a = torch.nn.functional.pad(a, (0, more_inputs, 0, more_ranks))
        b = torch.nn.functional.pad(b, (0, more_ranks, 0, more_outputs))
        b = b.view(panels, PANEL, rank // group, group).transpose(1, 2).contiguous()
        return Matrices(a, b)

    def set(self, slot: int, packed: PackedParts) -> None:
        """Puts an adapter into a slot."""
        pitch = int(self._table[1])
        if sum(packed.ranks) > pitch:
            pitch = sum(packed.ranks)
            self._sums = torch.empty(FEW, pitch)
            self._table[:HEAD] = self._sums.data_ptr(), pitch
        row = self._row(slot)
        row[:SLOT] = packed.a.data_ptr(), sum(packed.ranks)
        first = 0
        for index, (b, rank) in enumerate(zip(packed.b, packed.ranks, strict=True)):
            at = SLOT + PART * index
            row[at : at + PART] = first, rank, 0 if b is None else b.data_ptr()
            first += rank
        self._kept[slot] = packed  # the table holds its addresses

    def clear(self, slot: int) -> None:
        """Empties a slot; its rows get nothing added."""
        self._row(slot)[:] = 0
        self._kept.pop(slot, None)

    def add(self, output: torch.Tensor, values: torch.Tensor, rows: StepRows) -> None:
        """Adds to [T, out] of [T, in]."""
        tokens, numbers = len(values), self._numbers
        numbers[2], numbers[3] = rows.counts.ctypes.data, rows.starts.ctypes.data
        numbers[4], numbers[5] = rows.slots.ctypes.data, rows.order.ctypes.data
        numbers[6], numbers[7] = values.data_ptr(), output.data_ptr()
        numbers[9] = output.shape[1]
        self._kernel(self._elements * -(-tokens // 4), numbers)

    def _row(self, slot: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        start = HEAD + slot * self._slot
        return self._table[start : start + self._slot]
