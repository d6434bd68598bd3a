"""Speculative decoding: the seam that draft proposers implement."""

from hookline.spec_decode.config import SpeculativeConfig
from hookline.spec_decode.proposer import (
    DraftRequest,
    Drafts,
    HiddenStateProposer,
    Proposer,
)
from hookline.spec_decode.target import HiddenStates, TargetModel

__all__ = [
    "DraftRequest",
    "Drafts",
    "HiddenStateProposer",
    "HiddenStates",
    "Proposer",
    "SpeculativeConfig",
    "TargetModel",
]
