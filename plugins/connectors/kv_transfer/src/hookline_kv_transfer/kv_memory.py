"""A KV cache as bytes, for connectors."""

from collections.abc import Iterator, Sequence

import numpy as np

from hookline.engine.worker.extension import BlockMemory
from hookline_kv_transfer.blocks import Bytes, LayerMemory


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


def layers_of(memory: BlockMemory) -> list[LayerMemory]:
    """Returns each layer's blocks as bytes, without a copy."""
    return [_layer(sides) for sides in memory.sides()]


def _layer(sides: Sequence[object]) -> LayerMemory:
    arrays = [each.view(np.uint8) for each in sides if isinstance(each, np.ndarray)]
    if arrays:
        return HostLayer(arrays)
    from hookline_kv_transfer.tensor_memory import layer_of  # noqa: PLC0415

    return layer_of(sides)
