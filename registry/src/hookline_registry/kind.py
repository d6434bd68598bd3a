"""Kinds of plugins, and what an entry point without hooks stands for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pluggy


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKind:
    """A kind of plugin.

    Attributes:
        name: Name for users, such as `logger`.
        group: Entry-point group.
        hook: The hook that makes what a plugin of this kind provides.
        bare: What an entry point stands for that has no hooks: a `factory`, which the
            hook calls with its argument, a `provider`, which it calls without any, or
            a `value`, which it returns. None if it must have hooks.
    """

    name: str
    group: str
    hook: str
    bare: Literal["factory", "provider", "value"] | None = None


class BarePlugin:
    """Implements the hook of its kind by a factory or a value."""

    def __init__(self, project: str, kind: PluginKind, provided: object) -> None:
        """Marks an implementation of the hook.

        Raises:
            TypeError: The kind has factories, and this is none.
        """
        if kind.bare == "value":
            implementation: Callable[..., object] = _returning(provided)
        elif not callable(provided):
            raise TypeError(f"{provided!r} is neither a class nor a function")
        elif kind.bare == "provider":
            implementation = _providing(provided)
        else:
            implementation = _calling(provided)
        mark = pluggy.HookimplMarker(project)
        setattr(self, kind.hook, mark(implementation))


def has_hooks(project: str, plugin: object) -> bool:
    """Whether any function or method of an object is marked as a hook."""
    mark = f"{project}_impl"
    names = possible_hooks(plugin)
    return any(hasattr(getattr(plugin, name, None), mark) for name in names)


def possible_hooks(plugin: object) -> list[str]:
    """Names of an object's attributes that may be hooks.

    Not Python's own: before 3.11.3, a dataclass with slots has a `__weakref__` that
    cannot be read.
    """
    return [name for name in dir(plugin) if not name.startswith("__")]


def _returning(value: object) -> Callable[[], object]:
    def provide() -> object:
        return value

    return provide


def _providing(provider: Callable[[], object]) -> Callable[[], object]:
    def provide() -> object:
        return provider()

    return provide


def _calling(factory: Callable[[object], object]) -> Callable[[object], object]:
    def create(context: object) -> object:
        return factory(context)

    return create
