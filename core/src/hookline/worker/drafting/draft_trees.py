"""Trees of drafts in a step's arrays: who stands behind whom, and what is kept.

Node 0 is the newest token of a request, node i its draft i − 1. In the cache a tree's
nodes lie one behind another; a token's position is its place there less the nodes
before it that are not on its path.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hookline.config.speculative import OPTION
from hookline.exceptions import ConfigError
from hookline.spec_decode.tree import DraftTree
from hookline.worker.drafting.verification import Verified, first_of_each
from hookline_kernels import Platform

Int64 = npt.NDArray[np.int64]


class TreeArrays:
    """A tree of n drafts, by node.

    Attributes:
        parents: [n + 1]; that of node 0 is itself.
        depths: [n + 1], how far behind the newest token.
        num_unseen: [n + 1], nodes before it that are not on its path.
        unseen: [n + 1], the same as bits: the lowest is for the node itself, the next
            one for the node before it, and so on.
        paths: Of each node those below node 0 on the way to it, itself included.
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


def verify_tree(
    arrays: TreeArrays, rows: Int64, sampled: Int64, tokens: Int64
) -> Verified:
    """Follows each request's tree along what was sampled.

    A token is sampled behind each node. If a child of the node is that token, the
    child is accepted, and so on from there; if none is, it is the request's last one.
    So every token that is kept was sampled from the target behind those before it.

    Args:
        arrays: Of the tree; requests may have fewer of its nodes.
        rows: [S] whose each is; those of a request are adjacent, in order of nodes.
        sampled: [S] behind each node.
        tokens: [S] of the nodes; a request's newest token is not looked at.
    """
    firsts = first_of_each(rows)
    owners = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(rows)))
    nodes = np.arange(len(rows)) - firsts[owners]
    parents = firsts[owners] + arrays.parents[nodes]
    agrees = sampled[parents] == tokens
    is_kept = nodes == 0
    for depth in range(1, int(arrays.depths[nodes.max()]) + 1):
        is_next = (arrays.depths[nodes] == depth) & agrees & is_kept[parents]
        found = np.flatnonzero(is_next)
        if not len(found):
            break
        # Of children that are equal, the first; no other parent has any at this depth.
        is_kept[found[np.unique(owners[found], return_index=True)[1]]] = True
    return Verified(is_kept, firsts, np.add.reduceat(is_kept, firsts, dtype=np.int64))


def arrays_for(
    tree: DraftTree | None, platform: Platform, windows: Iterable[int | None]
) -> TreeArrays | None:
    """Of a tree, if there is one, that a model's layers can attend to.

    Args:
        tree: Of drafts.
        platform: That the model runs on.
        windows: Of its layers.

    Raises:
        ConfigError: They cannot.
    """
    if tree is None:
        return None
    if platform.is_gpu:
        raise ConfigError(OPTION, "trees of drafts are verified on processors alone")
    narrowest = min((each for each in windows if each is not None), default=None)
    if narrowest is not None and narrowest <= tree.depth:
        raise ConfigError(
            OPTION,
            f"a tree of drafts that is {tree.depth} deep does not fit the model, of "
            f"which a layer sees {narrowest} tokens",
        )
    return TreeArrays(tree)


class Moves(NamedTuple):
    """Of a step's tokens, [n] indices each, all to be read before any is written.

    Attributes:
        sources: Where what was computed of accepted nodes is.
        targets: Where it would be if they were a chain.
    """

    sources: Int64
    targets: Int64


def moves_of(verified: Verified, indices: Int64) -> Moves:
    """What makes each accepted path a chain.

    Args:
        verified: What of S sampled tokens is kept.
        indices: [S] of the step's tokens that each was sampled behind.
    """
    kept = np.flatnonzero(verified.is_kept)
    starts = np.cumsum(verified.counts) - verified.counts
    depths = np.arange(len(kept)) - np.repeat(starts, verified.counts)
    sources = indices[kept]
    targets = np.repeat(indices[verified.firsts], verified.counts) + depths
    is_moved = sources != targets
    return Moves(sources[is_moved], targets[is_moved])
