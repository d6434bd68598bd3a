"""Former names of payloads' attributes; they work for one more release."""

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T")


def former_fields(**parts: type | Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Lets loggers read attributes where they were before they moved into a part.

    Args:
        parts: The attributes of each part, by the part's name: its type, a struct or a
            dataclass, if none of them has got another name; otherwise their names in it
            by former ones.
    """

    def add(payload: type[T]) -> type[T]:
        for part, names in parts.items():
            if isinstance(names, type):
                names = {name: name for name in _names_of(names)}  # noqa: PLW2901
            for name, new in names.items():
                setattr(payload, name, _moved(name, f"{part}.{new}"))
        return payload

    return add


def _names_of(part: type) -> Sequence[str]:
    if is_dataclass(part):
        return [field.name for field in fields(part)]
    names: tuple[str, ...] = part.__struct_fields__  # type: ignore[attr-defined]
    return names


def _moved(name: str, path: str) -> property:
    value_of = attrgetter(path)

    def read(payload: object) -> object:
        warnings.warn(
            f"`{type(payload).__name__}.{name}` is now `{path}`; the old name will go "
            "with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return value_of(payload)

    return property(read)


def replaced_by(path: str) -> property:
    """Returns the property of a payload that a function has replaced.

    Args:
        path: `module:function` of an installed package; it takes the payload.
    """
    module, _, function = path.partition(":")

    def read(payload: object) -> object:
        warnings.warn(
            f"ask `{module}.{function}`: the property of `{type(payload).__name__}` "
            "will go with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(module), function)(payload)

    return property(read)
