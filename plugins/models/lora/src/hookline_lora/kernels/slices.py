"""Where the outputs of one layer lie among those of a joined product."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Slice(NamedTuple):
    """The columns of one layer.

    Attributes:
        offset: Column of its first output.
        width: Number of its outputs.
        block: Outputs that lie side by side, before others of another layer; 0 if all
            do.
        stride: Columns from block to block; unused without blocks.
    """

    offset: int
    width: int
    block: int = 0
    stride: int = 0

    def columns(self) -> npt.NDArray[np.int64]:
        """Returns the column of each output, [width]."""
        outputs = np.arange(self.width)
        if not self.block:
            return self.offset + outputs
        return self.offset + outputs // self.block * self.stride + outputs % self.block

    @property
    def end(self) -> int:
        """The column after its last one."""
        return int(self.columns()[-1]) + 1 if self.width else self.offset


def slices_of(given: Iterable[tuple[int, ...]]) -> tuple[Slice, ...]:
    """Makes slices of plain tuples.

    Raises:
        ValueError: One has no outputs, or its blocks overlap; or none is given.
    """
    found = tuple(Slice(*each) for each in given)
    if not found:
        raise ValueError("a product has at least one slice")
    for each in found:
        overlaps = each.block and each.stride < each.block
        if each.width < 1 or each.offset < 0 or each.block < 0 or overlaps:
            raise ValueError(f"{each} is no slice of a product")
    return found
