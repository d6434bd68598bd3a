"""For which numbers of requests a decode is captured in a graph."""

from bisect import bisect_left
from dataclasses import dataclass

MOST_CAPTURED = 512
"""A step of more is long enough for its launches to hide behind it."""
_SMALL = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Numbers of rows.

    Attributes:
        sizes: Ascending; empty where nothing is captured.
    """

    sizes: tuple[int, ...] = ()

    @classmethod
    def up_to(cls, max_num_seqs: int) -> "GraphSizes":
        """1, 2, 4, 8, 16, 24 … 256, 272 … 512, and the largest number there can be."""
        most = min(max_num_seqs, MOST_CAPTURED)
        steps = (*_SMALL, *range(8, 256, 8), *range(256, most, 16))
        return cls((*(size for size in steps if size < most), most))

    def holding(self, count: int) -> int | None:
        """The smallest that `count` rows fit in; None if there is none."""
        at = bisect_left(self.sizes, count)
        return self.sizes[at] if at < len(self.sizes) else None
