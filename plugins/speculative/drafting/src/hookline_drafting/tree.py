"""Trees of drafts: several candidates for a position, verified in one pass.

A proposer has one tree for all requests and steps, given by the parent of each draft.
Parents come before their children, so any prefix of the drafts is a tree as well. A
request's `Drafts` are such a prefix, without probabilities; drafts with the same parent
should differ.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_drafting.proposer import Proposer

MAX_TREE_DRAFTS = 64
"""A node's ancestors are a mask of 64 bits, one for each node up to the first draft."""


@dataclass(frozen=True, slots=True)
class DraftTree:
    """The shape of a proposer's drafts.

    Attributes:
        parents: See `ProposerCapabilities.draft_parents`.
        depths: Distance of each draft from the newest token, from 1 on.
    """

    parents: tuple[int | None, ...]
    depths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Raises `ConfigError` if the parents do not form a tree."""
        if not 1 <= len(self.parents) <= MAX_TREE_DRAFTS:
            raise ConfigError(
                OPTION,
                f"a tree has 1 to {MAX_TREE_DRAFTS} drafts, not {len(self.parents)}",
            )
        depths: list[int] = []
        for index, parent in enumerate(self.parents):
            is_number = isinstance(parent, int) and not isinstance(parent, bool)
            if parent is not None and not (is_number and 0 <= parent < index):
                raise ConfigError(
                    OPTION, f"draft {index} of a tree cannot follow draft {parent!r}"
                )
            depths.append(1 if parent is None else depths[parent] + 1)
        if any(after < before for before, after in pairwise(depths)):
            raise ConfigError(OPTION, "drafts of a tree must come in order of depth")
        object.__setattr__(self, "depths", tuple(depths))

    @property
    def depth(self) -> int:
        """Number of drafts on the longest path."""
        return self.depths[-1]

    def num_within(self, depth: int) -> int:
        """Returns the number of drafts up to this depth."""
        return bisect_right(self.depths, depth)


def tree_of(proposer: Proposer | None) -> DraftTree | None:
    """Returns the tree of a proposer's drafts, or None if it drafts chains.

    Raises:
        ConfigError: The declared parents do not form a tree.
    """
    if proposer is None or (parents := proposer.capabilities.draft_parents) is None:
        return None
    if not isinstance(parents, Sequence):
        raise ConfigError(OPTION, f"draft_parents is not a sequence: {parents!r}")
    return DraftTree(tuple(parents))
