"""Tells where the demo model's weights lie."""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Returns the folder with weights, tokenizer and configuration."""
    return Path(__file__).parent / "weights"
