"""Structured outputs by llguidance."""

from hookline_llguidance.backend import LLGuidanceBackend

__all__ = ["LLGuidanceBackend"]
