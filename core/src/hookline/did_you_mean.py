"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Returns `; did you mean X?` for the closest known name, or an empty text."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
