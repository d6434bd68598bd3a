"""Trees of drafts: several guesses for a place, verified in one pass.

A tree has one form for all requests and steps, said by the parent of each draft. It may
be cut behind any draft, since none comes before its parent.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.spec_decode.proposer import Proposer

MAX_TREE_DRAFTS = 64
"""A token has one bit for itself or each draft between it and the first one."""


class TreeProposer(Proposer, Protocol):
    """A proposer whose drafts are no chain.

    What it proposes for a request is the first so many drafts of its tree, of which no
    two with the same parent should be equal, and which have no probabilities.

    Attributes:
        draft_parents: Of each draft the index of the one before it, or None of one
            behind the request's newest token. Those that are less deep come first. It
            is there from the start and never changes.
    """

    draft_parents: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class DraftTree:
    """The form of a proposer's drafts.

    Attributes:
        parents: As `TreeProposer.draft_parents`.
        depths: Of each draft its place behind the newest token, from 1 on.
    """

    parents: tuple[int | None, ...]
    depths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Raises `ConfigError` if these are the parents of no tree."""
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
                    OPTION, f"draft {index} of a tree cannot be behind draft {parent!r}"
                )
            depths.append(1 if parent is None else depths[parent] + 1)
        if any(after < before for before, after in pairwise(depths)):
            raise ConfigError(OPTION, "drafts of a tree must come in order of depth")
        object.__setattr__(self, "depths", tuple(depths))

    @property
    def depth(self) -> int:
        """Drafts of its longest path."""
        return self.depths[-1]

    def num_within(self, depth: int) -> int:
        """How many drafts are no deeper."""
        return bisect_right(self.depths, depth)


def tree_of(proposer: Proposer | None) -> DraftTree | None:
    """The form of its drafts; None if they are chains.

    Raises:
        ConfigError: It names parents that make no tree.
    """
    parents = getattr(proposer, "draft_parents", None)
    if parents is None:
        return None
    if not isinstance(parents, Sequence):
        raise ConfigError(OPTION, f"draft_parents is no sequence: {parents!r}")
    return DraftTree(tuple(parents))
