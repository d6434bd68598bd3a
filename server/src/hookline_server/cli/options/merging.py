"""Merges nested mappings of options."""

from collections.abc import Mapping


def merged(
    first: Mapping[str, object], second: Mapping[str, object]
) -> dict[str, object]:
    """Returns the keys of both; those of the second win, mappings are merged."""
    found = dict(first)
    for key, value in second.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)  # noqa: PLW2901
        found[key] = value
    return found
