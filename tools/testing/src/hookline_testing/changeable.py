"""Finds what a plugin could change in what it is shown."""

import dataclasses
import enum
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
import numpy as np

SCALARS = (int, float, str, bytes, bool, type(None), enum.Enum, Path, type)


def parts(value: object) -> Iterator[tuple[str, object]]:
    """Yields the parts of a value that cannot be changed itself."""
    if isinstance(value, tuple | frozenset):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif isinstance(value, MappingProxyType):
        yield from ((f"[{key!r}]", each) for key, each in value.items())
        yield from ((" key", key) for key in value)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield f".{name}", getattr(value, name)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield f".{field.name}", getattr(value, field.name)


def is_changeable(value: object) -> bool:
    """Whether the value itself can be changed."""
    if isinstance(value, np.ndarray):
        return can_be_written(value)
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.frozen
    if dataclasses.is_dataclass(value):
        return not cast("Any", type(value)).__dataclass_params__.frozen
    return not isinstance(value, (*SCALARS, tuple, frozenset, MappingProxyType))


def changeable(value: object, path: str) -> Iterator[str]:
    """Yields the path of everything in a value that could be changed."""
    if is_changeable(value):
        yield f"{path}: {type(value).__name__}"
    for name, part in parts(value):
        yield from changeable(part, path + name)


def can_be_written(array: np.ndarray) -> bool:
    """Whether the array, or whatever it is a view of, can be made writable."""
    base: object = array
    while isinstance(base, np.ndarray):
        try:
            base.flags.writeable = True
        except ValueError:
            base = base.base
        else:
            return True
    return base is not None and not memoryview(cast("Any", base)).readonly
