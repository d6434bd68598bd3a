"""A paged cache as bytes: what connectors move."""

from collections.abc import Sequence

import numpy as np
import torch

from hookline.kv_transfer.blocks import Bytes
from hookline.worker.paged_cache import PagedCache


class HostLayer:
    """A layer's blocks in main memory."""

    def __init__(self, sides: Sequence[Bytes]) -> None:
        """Takes [blocks, bytes] views: K and V, or whatever there is."""
        self._sides = sides

    @property
    def block_bytes(self) -> int:
        return sum(side.shape[1] for side in self._sides)

    def read(self, block_ids: Sequence[int], out: Bytes | None = None) -> Bytes:
        ids = np.asarray(block_ids, np.int64)
        found = _new(len(ids), self.block_bytes) if out is None else out
        start = 0
        for side in self._sides:
            end = start + side.shape[1]
            found[:, start:end] = side[ids]
            start = end
        return found

    def write(self, block_ids: Sequence[int], data: Bytes) -> None:
        ids = np.asarray(block_ids, np.int64)
        start = 0
        for side in self._sides:
            end = start + side.shape[1]
            side[ids] = data[:, start:end]
            start = end


class DeviceLayer:
    """A layer's blocks in a device's memory; copies wait for the device."""

    def __init__(self, sides: Sequence[torch.Tensor]) -> None:
        """Takes [blocks, bytes] uint8 views of K and V."""
        self._sides = sides

    @property
    def block_bytes(self) -> int:
        return sum(side.shape[1] for side in self._sides)

    def read(self, block_ids: Sequence[int], out: Bytes | None = None) -> Bytes:
        ids = self._ids(block_ids)
        parts = [side.index_select(0, ids) for side in self._sides]
        found = _new(len(ids), self.block_bytes) if out is None else out
        torch.from_numpy(found).copy_(torch.cat(parts, dim=1))
        return found

    def write(self, block_ids: Sequence[int], data: Bytes) -> None:
        ids = self._ids(block_ids)
        given = torch.from_numpy(np.ascontiguousarray(data)).to(ids.device)
        widths = [side.shape[1] for side in self._sides]
        for side, part in zip(self._sides, given.split(widths, dim=1), strict=True):
            side.index_copy_(0, ids, part)
        torch.accelerator.synchronize(ids.device)

    def _ids(self, block_ids: Sequence[int]) -> torch.Tensor:
        return torch.tensor(list(block_ids), device=self._sides[0].device)


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


def _new(count: int, block_bytes: int) -> Bytes:
    return np.empty((count, block_bytes), np.uint8)


def _bytes(side: torch.Tensor) -> torch.Tensor:
    """A side as [blocks, bytes]: the numbers of a block follow one another."""
    count = side[0].numel() if len(side) else 0
    flat = side.as_strided((len(side), count), (side.stride(0), 1))
    return flat.view(torch.uint8)
