"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean X?` for the closest known name, or an empty text."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def unknown(what: str, name: str, known: Iterable[str], *, of: str = "") -> str:
    """Returns the message for a name that is not among the known ones."""
    names = list(known)
    hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
    return f"unknown {what} {name!r}{f' of {of}' if of else ''}{hint}"
