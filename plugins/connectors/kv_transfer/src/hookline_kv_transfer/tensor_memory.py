"""The tensors of a KV cache as bytes, in main memory or on a device."""

from collections.abc import Sequence

import torch

from hookline_kv_transfer.blocks import Bytes, LayerMemory
from hookline_kv_transfer.kv_memory import HostLayer


class DeviceLayer:
    """A layer's blocks in a device's memory; copies wait for the device.

    Copies go through pinned memory, which torch caches.
    """

    def __init__(self, sides: Sequence[torch.Tensor]) -> None:
        """Copies from and to [blocks, bytes] uint8 views of K and V."""
        self._sides = sides

    @property
    def block_bytes(self) -> int:
        return sum(side.shape[1] for side in self._sides)

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        ids = self._ids(block_ids)
        parts = [side.index_select(0, ids) for side in self._sides]
        staged = self._staged(len(block_ids))
        staged.copy_(torch.cat(parts, dim=1))
        target[list(rows)] = staged.numpy()

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        ids = self._ids(block_ids)
        staged = self._staged(len(block_ids))
        staged.numpy()[:] = source[list(rows)]
        given = staged.to(ids.device)
        widths = [side.shape[1] for side in self._sides]
        for side, part in zip(self._sides, given.split(widths, dim=1), strict=True):
            side.index_copy_(0, ids, part)
        torch.accelerator.synchronize(ids.device)

    def _ids(self, block_ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor(list(block_ids), device=self._sides[0].device)

    def _staged(self, count: int) -> torch.Tensor:
        is_pinned = self._sides[0].device.type == "cuda"
        return torch.empty(
            (count, self.block_bytes), dtype=torch.uint8, pin_memory=is_pinned
        )


def layer_of(sides: Sequence[object]) -> LayerMemory:
    """Returns a layer's blocks, given the tensors that own them."""
    tensors = [each for each in sides if isinstance(each, torch.Tensor)]
    views = [_bytes(each) for each in tensors]
    if tensors[0].device.type == "cpu":
        return HostLayer([view.numpy() for view in views])
    return DeviceLayer(views)


def _bytes(side: torch.Tensor) -> torch.Tensor:
    """Returns K or V as [blocks, bytes]; a block is contiguous, with its scales."""
    count = side.stride(0)
    return side.as_strided((len(side), count), (count, 1)).view(torch.uint8)
