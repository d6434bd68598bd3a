"""The demo model's weights, as an installed model."""

from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Returns the folder with weights, tokenizer and configuration."""
    return Path(__file__).parent / "weights"
