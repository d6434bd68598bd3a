"""Several drafts for a position, and what follows each: a tree in place of a chain."""

from collections.abc import Sequence
from typing import Protocol

from hookline_kernels.draft_verification import Int64, Verified


class DraftTree(Protocol):
    """Several drafts for a position, and drafts after each of them.

    Node 0 is the newest token of a request, node i its draft i − 1, and no node comes
    before its parent. The cache holds a request's nodes consecutively.
    """

    @property
    def num_unseen(self) -> Int64:
        """[nodes] number of earlier nodes that are not on the node's path."""

    @property
    def unseen(self) -> Int64:
        """[nodes] these as bits: the lowest is the node, the next the one before it."""

    @property
    def paths(self) -> Sequence[Int64]:
        """For each node, the nodes from node 0 (excluded) to it (included)."""

    def verify(self, rows: Int64, sampled: Int64, tokens: Int64) -> Verified:
        """Follows each request's tree along the sampled tokens.

        Args:
            rows: [S] row of the request of each node; a request's are adjacent.
            sampled: [S] token sampled after each node.
            tokens: [S] token of each node; that of node 0 is ignored.
        """
