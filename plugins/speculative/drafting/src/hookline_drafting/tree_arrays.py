"""Trees of drafts as arrays, and which sampled tokens of a tree are kept.

Node 0 is the newest token of a request, node i its draft i − 1. The cache holds a
tree's nodes consecutively; a token's position is its index there minus the number of
earlier nodes that are not on its path.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline.config.extensions import SPECULATIVE_OPTION as OPTION
from hookline.exceptions import ConfigError
from hookline_drafting.tree import DraftTree
from hookline_kernels import Platform
from hookline_kernels.draft_verification import Verified, first_of_each

Int64 = npt.NDArray[np.int64]


class TreeArrays:
    """A tree of n drafts, by node.

    Attributes:
        parents: [n + 1] parent of each node; node 0 is its own.
        depths: [n + 1] distance from the newest token.
        num_unseen: [n + 1] number of earlier nodes that are not on the node's path.
        unseen: [n + 1] the same as bit masks: the lowest bit is for the node itself,
            the next one for the node before it, and so on.
        paths: For each node, the nodes from node 0 (excluded) to it (included).
    """

    def __init__(self, tree: DraftTree) -> None:
        self.parents: Int64 = np.array(
            [0, *(0 if each is None else each + 1 for each in tree.parents)]
        )
        self.depths: Int64 = np.array([0, *tree.depths])
        self.num_unseen: Int64 = np.arange(len(self.depths)) - self.depths
        self.paths: list[Int64] = [np.zeros(0, np.int64)]
        words = [0]
        for node, parent in enumerate(self.parents.tolist()[1:], 1):
            self.paths.append(np.append(self.paths[parent], node))
            others = set(range(1, node)) - set(self.paths[node].tolist())
            words.append(sum(1 << node - other for other in others))
        self.unseen: Int64 = np.array(words, np.uint64).view(np.int64)

    def verify(self, rows: Int64, sampled: Int64, tokens: Int64) -> Verified:
        """Follows each request's tree along the sampled tokens.

        A token is sampled after each node. If a child of the node is that token, the
        child is accepted, and so on from there; otherwise it is the request's last new
        token. So every kept token was sampled from the target after the ones before it.
        Requests may have only the tree's first nodes.

        Args:
            rows: [S] row of the request of each node; a request's are adjacent, in
                order.
            sampled: [S] token sampled after each node.
            tokens: [S] token of each node; that of node 0 is ignored.
        """
        firsts = first_of_each(rows)
        owners = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(rows)))
        nodes = np.arange(len(rows)) - firsts[owners]
        parents = firsts[owners] + self.parents[nodes]
        agrees = sampled[parents] == tokens
        is_kept = nodes == 0
        for depth in range(1, int(self.depths[nodes.max()]) + 1):
            is_next = (self.depths[nodes] == depth) & agrees & is_kept[parents]
            found = np.flatnonzero(is_next)
            if not len(found):
                break
            # The first of equal children; no other parent has children at this depth.
            is_kept[found[np.unique(owners[found], return_index=True)[1]]] = True
        counts = np.add.reduceat(is_kept, firsts, dtype=np.int64)
        return Verified(is_kept, firsts, counts)


def arrays_for(
    tree: DraftTree | None, platform: Platform, windows: Iterable[int | None]
) -> TreeArrays | None:
    """Returns the arrays of a tree, or None without one.

    Args:
        tree: The tree of drafts.
        platform: Platform of the model.
        windows: Attention windows of its layers, in tokens; None is unlimited.

    Raises:
        ConfigError: The model's layers cannot attend to the tree.
    """
    if tree is None:
        return None
    if platform.is_gpu:
        raise ConfigError(OPTION, "draft trees can be verified on CPUs only")
    narrowest = min((each for each in windows if each is not None), default=None)
    if narrowest is not None and narrowest <= tree.depth:
        raise ConfigError(
            OPTION,
            f"a draft tree of depth {tree.depth} does not fit the model, which has a "
            f"sliding window of {narrowest} tokens",
        )
    return TreeArrays(tree)


class Moves(NamedTuple):
    """Indices of a step's tokens, [n] each; read all sources before any write.

    Attributes:
        sources: Current indices of the accepted nodes' keys and values.
        targets: Their indices in a chain.
    """

    sources: Int64
    targets: Int64


def moves_of(verified: Verified, indices: Int64) -> Moves:
    """Returns the moves that turn each accepted path into a chain.

    Args:
        verified: Which of S sampled tokens are kept.
        indices: [S] index of the step's token that each was sampled after.
    """
    kept = np.flatnonzero(verified.is_kept)
    starts = np.cumsum(verified.counts) - verified.counts
    depths = np.arange(len(kept)) - np.repeat(starts, verified.counts)
    sources = indices[kept]
    targets = np.repeat(indices[verified.firsts], verified.counts) + depths
    is_moved = sources != targets
    return Moves(sources[is_moved], targets[is_moved])
