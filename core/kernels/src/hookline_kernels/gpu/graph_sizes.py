"""The numbers of decodes for which CUDA graphs are captured."""

from bisect import bisect_left
from dataclasses import dataclass

MOST_CAPTURED = 512
"""Largest captured size; a larger step takes long enough to hide its launches."""
_SMALL = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Sizes of captured batches.

    Attributes:
        sizes: Numbers of decodes, ascending; empty without graphs.
    """

    sizes: tuple[int, ...] = ()

    @classmethod
    def up_to(cls, max_num_seqs: int) -> "GraphSizes":
        """1, 2, 4, 8, 16, 24 … 256, 272 … 512, and the largest possible number."""
        most = min(max_num_seqs, MOST_CAPTURED)
        steps = (*_SMALL, *range(8, 256, 8), *range(256, most, 16))
        return cls((*(size for size in steps if size < most), most))

    def holding(self, count: int) -> int | None:
        """Returns the smallest size of at least `count`, or None."""
        at = bisect_left(self.sizes, count)
        return self.sizes[at] if at < len(self.sizes) else None
