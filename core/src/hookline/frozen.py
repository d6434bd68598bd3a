"""Plain data that cannot be changed, for plugins to see what the engine uses itself."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST_LEVELS = 64
"""Maximum depth of JSON; the interpreter's stack bounds recursion."""

EMPTY: Mapping[Any, Any] = MappingProxyType({})
_SCALARS = frozenset((str, int, float, bool, type(None)))


def frozen_map(values: Mapping[K, V]) -> Mapping[K, V]:
    """Returns a mapping that cannot be changed, with these values.

    It is a view if `values` is a dict, which its owner must not change any more.
    """
    if not values:
        return EMPTY
    return values if isinstance(values, MappingProxyType) else MappingProxyType(values)


def frozen_json(values: Mapping[str, object]) -> Mapping[str, object]:
    """Returns a copy of a JSON object: tuples for lists, and unchangeable mappings.

    Raises:
        ValueError: It has more than `MOST_LEVELS` levels.
    """
    return frozen_map({key: _frozen(each, 1) for key, each in values.items()})


def _frozen(value: object, level: int) -> object:
    if type(value) in _SCALARS or not isinstance(value, Mapping | list | tuple):
        return value
    if level >= MOST_LEVELS:
        raise ValueError(f"more than {MOST_LEVELS} levels of lists and objects")
    if isinstance(value, Mapping):
        return frozen_map({at: _frozen(each, level + 1) for at, each in value.items()})
    return tuple([_frozen(each, level + 1) for each in value])


def plain(value: object) -> object:
    """Returns a dict for a frozen mapping: an `enc_hook` of msgspec.

    Raises:
        NotImplementedError: The value is something else, as msgspec expects it.
    """
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be encoded")
