"""Structured outputs by xgrammar."""

from hookline_xgrammar.backend import XGrammarBackend

__all__ = ["XGrammarBackend"]
