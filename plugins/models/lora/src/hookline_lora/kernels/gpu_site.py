"""The adapters' part of one product, on GPUs."""

from collections.abc import Sequence

import torch

from hookline_kernels import KernelError, import_compiled
from hookline_lora.kernels.parts import Matrices, PackedParts
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import Slice

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class GpuSite:
    """Adds to a product's output by one launch, which a CUDA graph can capture."""

    def __init__(
        self,
        in_features: int,
        slices: Sequence[Slice],
        dtype: torch.dtype,
        max_loras: int,
        device: torch.device | str,
    ) -> None:
        """Makes a site without adapters.

        Raises:
            KernelError: No kernel supports this dtype, or Triton is not installed.
        """
        if dtype not in _DTYPES:
            raise KernelError(f"no kernel adds adapters in {dtype}")
        self._kernels = import_compiled("hookline_lora.kernels.gpu_kernel")
        self._inputs, self._dtype, self._max_loras = in_features, dtype, max_loras
        self._device = torch.device(device)
        words = self._kernels.SLOT + self._kernels.PART * len(slices)
        self._table = torch.zeros(max_loras, words, dtype=torch.int64, device=device)
        tiles = [
            (index, first)
            for index, each in enumerate(slices)
            for first in range(0, each.width, self._kernels.OUTPUTS)
        ]
        places = [
            (each.offset, each.width, each.block or each.width, each.stride)
            for each in slices
        ]
        self._tiles, self._places = (
            torch.tensor(each, dtype=torch.int32, device=device)
            for each in (tiles, places)
        )
        self._kept: dict[int, list[torch.Tensor | None]] = {}

    def packed(self, parts: Sequence[Matrices | None]) -> PackedParts:
        """Converts matrices and joins them in main memory; any thread may."""
        ranks = tuple(0 if each is None else len(each.a) for each in parts)
        sides = [each.a.to(self._dtype) for each in parts if each is not None]
        joined = torch.cat(sides) if sides else torch.empty(0, dtype=self._dtype)
        others = (
            None if each is None else self._host(each.b.to(self._dtype))
            for each in parts
        )
        return PackedParts(self._host(joined), tuple(others), ranks)

    def _host(self, numbers: torch.Tensor) -> torch.Tensor:
        numbers = numbers.cpu().contiguous()
        return numbers.pin_memory() if self._device.type == "cuda" else numbers

    def set(self, slot: int, packed: PackedParts) -> None:
        """Copies an adapter into a slot, in the order of the device's work."""
        a, *others = (
            None if each is None else each.to(self._device, non_blocking=True)
            for each in (packed.a, *packed.b)
        )
        assert a is not None
        row, first = [a.data_ptr(), sum(packed.ranks)], 0
        for b, rank in zip(others, packed.ranks, strict=True):
            row += [first, rank, 0 if b is None else b.data_ptr()]
            first += rank
        self._write(slot, row)
        self._kept[slot] = [a, *others]  # the table holds their addresses

    def clear(self, slot: int) -> None:
        """Empties a slot; its rows get nothing added."""
        self._write(slot, [0] * self._table.shape[1])
        self._kept.pop(slot, None)

    def _write(self, slot: int, row: list[int]) -> None:
        # From pageable memory, which is read before the call returns.
        self._table[slot].copy_(torch.tensor(row))

    def add(self, output: torch.Tensor, values: torch.Tensor, rows: StepRows) -> None:
        """Adds to [T, out] of [T, in]."""
        given = self._kernels.Addresses(
            self._table, rows.memory, self._tiles, self._places
        )
        self._kernels.add_adapters(output, values, given, self._max_loras)
