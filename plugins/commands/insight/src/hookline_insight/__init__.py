"""Explains from recordings where the time of requests went, and what bounds engines."""

from hookline_insight.account import Account, Part, Piece, Share
from hookline_insight.explainer import Explainer

__all__ = ["Account", "Explainer", "Part", "Piece", "Share"]
