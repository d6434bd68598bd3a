"""Speculative decoding: the interface of draft proposers."""

from hookline.config.speculative import SpeculativeConfig
from hookline.spec_decode.capabilities import ProposerCapabilities
from hookline.spec_decode.proposer import (
    CachingProposer,
    DraftRequest,
    Drafts,
    HiddenStateProposer,
    Proposer,
)
from hookline.spec_decode.target import DraftLayer, HiddenStates, TargetModel
from hookline.spec_decode.tree import MAX_TREE_DRAFTS

__all__ = [
    "MAX_TREE_DRAFTS",
    "CachingProposer",
    "DraftLayer",
    "DraftRequest",
    "Drafts",
    "HiddenStateProposer",
    "HiddenStates",
    "Proposer",
    "ProposerCapabilities",
    "SpeculativeConfig",
    "TargetModel",
]
