"""The adapters' part of one product of the base model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from hookline_kernels import import_compiled
from hookline_lora.kernels.gpu_site import GpuSite
from hookline_lora.kernels.parts import PackedParts, Parts, checked
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import slices_of

if TYPE_CHECKING:
    from hookline_lora.kernels.cpu_site import CpuSite


class AdaptedSite:
    """One product, of one layer or several joined ones, and its adapters by slot.

    For one thread at a time, but `packed`. What kernels read is at fixed addresses, so
    that slots change between steps that were recorded, or captured, before.

    Attributes:
        in_features: Inputs of the product.
        slices: Where the outputs of each layer lie.
        max_loras: Number of slots.
    """

    def __init__(
        self,
        in_features: int,
        slices: Sequence[tuple[int, ...]],
        dtype: torch.dtype,
        max_loras: int,
        device: torch.device | str = "cpu",
    ) -> None:
        """Makes a site without adapters; compiles its kernel if needed.

        Args:
            in_features: Inputs of the product.
            slices: Offset and width of each layer's outputs, or a `Slice`.
            dtype: That of values and output: bfloat16 or float32; on GPUs float16, too.
            max_loras: Number of slots.
            device: Where values and output are.

        Raises:
            KernelError: No kernel supports the dtype or the device.
            ValueError: A slice is wrong.
        """
        self.in_features, self.max_loras = in_features, max_loras
        self.slices = slices_of(slices)
        self._outputs = max(each.end for each in self.slices)
        self._dtype = dtype
        self._site: CpuSite | GpuSite
        if torch.device(device).type == "cpu":
            kernels = import_compiled("hookline_lora.kernels.cpu_site")
            self._site = kernels.CpuSite(in_features, self.slices, dtype, max_loras)
        else:
            self._site = GpuSite(in_features, self.slices, dtype, max_loras, device)

    def packed(self, parts: Parts) -> PackedParts:
        """Copies an adapter's matrices into the kernels' layout; any thread may.

        Args:
            parts: For each slice A [rank, in] and B [width, rank], which has the
                adapter's scale, or None. Ranks may differ.

        Raises:
            ValueError: A shape is wrong, or the ranks are too many.
        """
        return self._site.packed(checked(parts, self.in_features, self.slices))

    def set(self, slot: int, parts: Parts | PackedParts) -> None:
        """Puts an adapter into a slot, instead of what is there.

        Raises:
            ValueError: There is no such slot, or as for `packed`.
        """
        self._check(slot)
        packed = parts if isinstance(parts, PackedParts) else self.packed(parts)
        self._site.set(slot, packed)

    def clear(self, slot: int) -> None:
        """Empties a slot; nothing is added to its rows.

        Raises:
            ValueError: There is no such slot.
        """
        self._check(slot)
        self._site.clear(slot)

    def add(self, output: torch.Tensor, values: torch.Tensor, rows: StepRows) -> None:
        """Adds B·(A·x) to the rows that have an adapter, in float32, rounded once.

        Args:
            output: [T, out] contiguous, of the site's dtype; changed in place.
            values: [T, in] contiguous, likewise.
            rows: The step's rows, filled for T tokens.

        Raises:
            ValueError: A shape or dtype is wrong, or rows are not contiguous.
        """
        if (
            values.shape != (len(output), self.in_features)
            or output.ndim != 2
            or output.shape[1] < self._outputs
            or rows.max_loras != self.max_loras
            or not values.dtype == output.dtype == self._dtype
            or not (values.is_contiguous() and output.is_contiguous())
        ):
            raise ValueError(
                f"{values.dtype} {tuple(values.shape)} and {output.dtype} "
                f"{tuple(output.shape)} are no rows of this product of "
                f"{self.max_loras} slots, or the step has another number of them"
            )
        self._site.add(output, values, rows)

    def _check(self, slot: int) -> None:
        if not 0 <= slot < self.max_loras:
            raise ValueError(f"slot {slot} is not one of {self.max_loras}")
