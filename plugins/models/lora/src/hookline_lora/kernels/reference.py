"""What the kernels compute, by torch."""

from collections.abc import Mapping, Sequence

import torch

from hookline_lora.kernels.parts import Parts
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import Slice


def add_reference(
    output: torch.Tensor,
    values: torch.Tensor,
    rows: StepRows,
    slices: Sequence[Slice],
    slots: Mapping[int, Parts],
) -> None:
    """Adds B·(A·x) to the rows that have an adapter, in float32, rounded once.

    Args:
        output: [T, out]; changed in place.
        values: [T, in].
        rows: The step's rows.
        slices: Those of the product.
        slots: The matrices in each slot; one that is missing adds nothing.
    """
    for slot, indices in rows.groups():
        own = torch.from_numpy(indices).to(values.device)
        numbers = values[own].float()
        for part, place in zip(slots.get(slot, ()), slices, strict=False):
            if part is None:
                continue
            a, b = (each.to(values.dtype).float() for each in part)
            columns = torch.from_numpy(place.columns()).to(values.device)
            at = (own[:, None], columns[None, :])
            added = output[at].float() + numbers @ a.T @ b.T
            output[at] = added.to(output.dtype)
