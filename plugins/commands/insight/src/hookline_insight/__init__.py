"""Explains from recordings where the time of requests went, and what bounds engines."""

from typing import TYPE_CHECKING

from hookline.moved_modules import lazy_exports

if TYPE_CHECKING:
    from hookline_insight.account import Account, Part, Piece, Share
    from hookline_insight.explainer import Explainer

__all__ = ["Account", "Explainer", "Part", "Piece", "Share"]

__getattr__ = lazy_exports(
    __name__,
    {
        "hookline_insight.account": ("Account", "Part", "Piece", "Share"),
        "hookline_insight.explainer": ("Explainer",),
    },
)
