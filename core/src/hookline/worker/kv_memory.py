"""A paged cache as bytes: what connectors move."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.kv_transfer.blocks import Bytes
from hookline.worker.paged_cache import PagedCache


class HostLayer:
    """A layer's blocks in main memory; copies use torch's threads."""

    def __init__(self, sides: Sequence[Bytes]) -> None:
        """Takes [blocks, bytes] views: K and V, or whatever there is."""
        self._sides = sides

    @property
    def block_bytes(self) -> int:
        return sum(side.shape[1] for side in self._sides)

    def copy_out(
        self, block_ids: Sequence[int], target: Bytes, rows: Sequence[int]
    ) -> None:
        ids, own = torch.tensor(block_ids), torch.tensor(rows)
        start = 0
        for side in self._sides:
            end = start + side.shape[1]
            old, new = _wide(side, target[:, start:end])
            new.index_copy_(0, own, old.index_select(0, ids))
            start = end

    def copy_in(
        self, block_ids: Sequence[int], source: Bytes, rows: Sequence[int]
    ) -> None:
        ids, own = torch.tensor(block_ids), torch.tensor(rows)
        if not source.flags.writeable:
            source = source.copy()  # torch takes no other
        start = 0
        for side in self._sides:
            end = start + side.shape[1]
            old, new = _wide(source[:, start:end], side)
            new.index_copy_(0, ids, old.index_select(0, own))
            start = end


class DeviceLayer:
    """A layer's blocks in a device's memory; copies wait for the device.

    They go through pinned memory, which torch keeps for the next ones.
    """

    def __init__(self, sides: Sequence[torch.Tensor]) -> None:
        """Takes [blocks, bytes] uint8 views of K and V."""
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
    """Each layer's blocks as bytes, without a copy."""
    layers: list[HostLayer | DeviceLayer] = []
    for keys, values in zip(cache.keys, cache.values, strict=True):
        sides = [_bytes(keys), _bytes(values)]
        if keys.device.type == "cpu":
            layers.append(HostLayer([side.numpy() for side in sides]))
        else:
            layers.append(DeviceLayer(sides))
    return layers


def _bytes(side: torch.Tensor) -> torch.Tensor:
    """A side as [blocks, bytes]: the numbers of a block follow one another."""
    count = side[0].numel() if len(side) else 0
    flat = side.as_strided((len(side), count), (side.stride(0), 1))
    return flat.view(torch.uint8)


def _wide(first: Bytes, second: Bytes) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as tensors over their memory, of words if that can be.

    They are copied several times as fast as bytes.
    """
    try:
        words = first.view(np.int64), second.view(np.int64)
    except ValueError:  # no whole number of them
        return torch.from_numpy(first), torch.from_numpy(second)
    if not all(each.flags.aligned for each in words):
        return torch.from_numpy(first), torch.from_numpy(second)
    return torch.from_numpy(words[0]), torch.from_numpy(words[1])
