"""Finds the types of ours that carry a prompt: with its text or its tokens in a field.

It sees what functions of ours are given and return, and the objects in their fields. A
field counts if it is the prompt, or a collection that has the prompt in it, but not if
it only refers to another object that carries it. What only C code sees is not found.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

_DEPTH = 2
"""Collections, and objects, inside of others that are searched."""
_MOST_ITEMS = 64


class Forms:
    """The types that carry one prompt."""

    def __init__(self, text: str, token_ids: Sequence[int]) -> None:
        self._text = text
        self._data = text.encode()
        self._tokens = list(token_ids)
        self._packed = np.array(self._tokens, np.int64).tobytes()
        self.found: dict[str, str] = {}

    def look(self, value: object) -> None:
        """Looks at an object, and at those that it refers to."""
        self._look_at(value, _DEPTH)

    def _look_at(self, value: object, depth: int) -> None:
        kind = type(value)
        if not kind.__module__.startswith("hookline"):
            if depth and isinstance(value, list | tuple):
                for each in value[:_MOST_ITEMS]:
                    self._look_at(each, depth - 1)
            return
        name = f"{kind.__module__}.{kind.__qualname__}"
        for field, held in _fields(value):
            if name not in self.found and self._carries(held, _DEPTH):
                self.found[name] = field
            if depth:
                self._look_at(held, depth - 1)

    def _carries(self, held: object, depth: int) -> bool:
        if isinstance(held, str):
            return self._text in held
        if isinstance(held, bytes | bytearray):
            return self._data in held
        if isinstance(held, torch.Tensor) and not held.is_floating_point():
            held = held.numpy()
        if isinstance(held, np.ndarray):
            packs = held.dtype.kind in "iu"
            return packs and self._packed in held.astype(np.int64).tobytes()
        if isinstance(held, Mapping):
            held = list(held.values())
        if not isinstance(held, list | tuple):
            return False
        if held and type(held[0]) is int:
            return list(held[: len(self._tokens)]) == self._tokens
        items = held[:_MOST_ITEMS] if depth else ()
        return any(self._carries(each, depth - 1) for each in items)


def _fields(value: object) -> Iterator[tuple[str, object]]:
    names: set[str] = set(getattr(value, "__dict__", ()))
    names.update(getattr(value, "__struct_fields__", ()))
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update([slots] if isinstance(slots, str) else slots)
    if isinstance(value, tuple):
        names.update(getattr(value, "_fields", ()))
    for name in sorted(names):
        try:
            yield name, getattr(value, name)
        except AttributeError:
            continue
