"""Suggestions for misspelt names."""

from collections.abc import Iterable

from hookline_registry.spelling import closest


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean X?` for what `name` misspells, or an empty text."""
    found = closest(name, known)
    return f"; did you mean {found}?" if found else ""


def unknown(what: str, name: str, known: Iterable[str], *, of: str = "") -> str:
    """Returns the message for a name that is not among the known ones."""
    names = list(known)
    hint = did_you_mean(name, names) or f"; available: {', '.join(names)}"
    return f"unknown {what} {name!r}{f' of {of}' if of else ''}{hint}"
