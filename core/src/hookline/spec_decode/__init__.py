"""Speculative decoding: the seam that draft proposers implement."""

from hookline.spec_decode.config import SpeculativeConfig
from hookline.spec_decode.proposer import DraftRequest, Drafts, Proposer

__all__ = ["DraftRequest", "Drafts", "Proposer", "SpeculativeConfig"]
