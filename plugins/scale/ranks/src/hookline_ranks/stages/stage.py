"""The stages of a pipeline, and which layers each of them has."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the stages that have a part of the layers each.

    Attributes:
        index: Index of the stage, from 0.
        size: Number of stages.
    """

    index: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.index == 0

    @property
    def is_last(self) -> bool:
        return self.index == self.size - 1


ONLY = Stage()
"""The stage that has all layers."""


def divide_layers(costs: Sequence[int], last: int, stages: int) -> list[range]:
    """Divides layers so that the stage with most to compute has the least possible.

    Of equally good divisions the last stage gets the fewest layers: it samples, too.

    Args:
        costs: What each layer costs.
        last: What comes on top in the last stage, in the same unit.
        stages: Number of stages; each gets at least one layer.

    Returns:
        The layers of each stage, in order.

    Raises:
        ValueError: There are more stages than layers.
    """
    count = len(costs)
    if stages > count:
        raise ValueError(f"{stages} stages cannot divide {count} layers")
    sums = [0, *accumulate(costs)]
    # best[end] has the least load of the fullest of the stages so far, which divide the
    # first `end` layers, and where they end; negative, so that of equally good
    # divisions the latest cuts are the least.
    best: dict[int, tuple[int, tuple[int, ...]]] = {
        end: (sums[end], (0, -end)) for end in range(1, count + 1)
    }
    for stage in range(2, stages + 1):
        extra = last if stage == stages else 0
        best = {
            end: min(
                (max(most, sums[end] - sums[start] + extra), (*ends, -end))
                for start, (most, ends) in best.items()
                if start < end
            )
            for end in range(stage, count + 1)
        }
    edges = [-end for end in best[count][1]]
    return [range(*edge) for edge in pairwise(edges)]
