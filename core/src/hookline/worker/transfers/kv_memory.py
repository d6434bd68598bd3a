"""A paged cache as bytes, for connectors."""

from collections.abc import Iterator, Sequence

import torch

from hookline.kv_transfer.blocks import Bytes
from hookline.worker.paged_cache import PagedCache


class HostLayer:
    """A layer's blocks in main memory."""

    def __init__(self, sides: Sequence[Bytes]) -> None:
        """Copies from and to [blocks, bytes] uint8 views, such as K and V."""
        self._sides = sides

    @property
    def block_bytes(self) -> int:
        return sum(side.shape[1] for side in self._sides)

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        for old, new in _runs(block_ids, rows):
            start = 0
            for side in self._sides:
                end = start + side.shape[1]
                target[new, start:end] = side[old]
                start = end

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        for old, new in _runs(rows, block_ids):
            start = 0
            for side in self._sides:
                end = start + side.shape[1]
                side[new] = source[old, start:end]
                start = end


def _runs(first: Sequence[int], second: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Yields pairs of numbers as pairs of slices, as long as possible, up or down.

    numpy copies a slice row by row without the interpreter's lock.
    """
    start, count = 0, len(first)
    while start < count:
        end, steps = start + 1, (1, 1)
        if end < count:
            steps = first[end] - first[start], second[end] - second[start]
        if abs(steps[0]) == abs(steps[1]) == 1:
            while end < count and steps == (
                first[end] - first[end - 1],
                second[end] - second[end - 1],
            ):
                end += 1
        size = end - start
        yield _span(first[start], steps[0], size), _span(second[start], steps[1], size)
        start = end


def _span(first: int, step: int, size: int) -> slice:
    if step > 0 or size == 1:
        return slice(first, first + size)
    last = first - size
    return slice(first, last if last >= 0 else None, -1)


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


def layers_of(cache: PagedCache) -> list[HostLayer | DeviceLayer]:
    """Returns each layer's blocks as bytes, without a copy."""
    layers: list[HostLayer | DeviceLayer] = []
    for tensors in cache.sides():
        sides = [_bytes(each) for each in tensors]
        if tensors[0].device.type == "cpu":
            layers.append(HostLayer([side.numpy() for side in sides]))
        else:
            layers.append(DeviceLayer(sides))
    return layers


def _bytes(side: torch.Tensor) -> torch.Tensor:
    """Returns K or V as [blocks, bytes]; a block is contiguous, with its scales."""
    count = side.stride(0)
    return side.as_strided((len(side), count), (count, 1)).view(torch.uint8)
