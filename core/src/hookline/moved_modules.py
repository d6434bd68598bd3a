"""Names that a package finds on first access (PEP 562), also those that have moved.

Old names of documented modules work for one more release. `moved_modules.toml` has
them; it is read when one is asked for.
"""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from os.path import isfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

_WARNING = "{} has moved to {}; the old name will go with the next release"
_ENDS = ".py", "/__init__.py"


class Moved(NamedTuple):
    """What has moved.

    Attributes:
        modules: New name of each module; those inside it have moved along.
        names: Names that have left a module, by that module and by the modules that
            have them.
    """

    modules: Mapping[str, str]
    names: Mapping[str, Mapping[str, Sequence[str]]]


@cache
def read_moved() -> Moved:
    """Returns what has moved."""
    import tomllib  # noqa: PLC0415 - few ask for old names

    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return Moved(**tomllib.loads(text))


def new_name(name: str) -> str | None:
    """Returns the new name of a module, or None if it has not moved."""
    modules, old = read_moved().modules, name
    while old and old not in modules:
        old = old.rpartition(".")[0]
    return modules[old] + name.removeprefix(old) if old else None


def moved_name(module: str, name: str) -> object:
    """Returns what has left a module: for its `__getattr__`.

    Raises:
        AttributeError: The module never had it.
    """
    # Before it imports something from a module, Python asks it for `__path__`, and a
    # package for the name, which may be that of a module inside.
    path = vars(sys.modules[module]).get("__path__", ())
    asks_itself = name.startswith("__") or _has_stayed(f"{module}.{name}", path)
    homes = {} if asks_itself else read_moved().names.get(module, {})
    new = next((new for new, names in homes.items() if name in names), None)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        _WARNING.format(f"{module}.{name}", new), DeprecationWarning, stacklevel=3
    )
    return getattr(importlib.import_module(new), name)


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]]
) -> Callable[[str], object]:
    """Returns the package's `__getattr__`.

    Args:
        package: Its name.
        homes: Its names, by the modules that define them.
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if (module := modules.get(name)) is None:
            return moved_name(package, name)
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if (top := module.partition(".")[0]) != error.name:
                raise
            needed = top.replace("_", "-")
            reason = f"{package}.{name} needs {needed} (pip install {needed})"
            raise ModuleNotFoundError(reason, name=top) from error

    return find


class _AliasLoader(Loader):
    """Loads the module of the new name in the place of the old one."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._own_spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(
            _WARNING.format(spec.name, self._new), DeprecationWarning, stacklevel=2
        )
        module = importlib.import_module(self._new)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has been executed under its new name; it keeps its own spec."""
        module.__spec__ = self._own_spec


class MovedModules(MetaPathFinder):
    """Finds modules by the names that they had before they moved."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Returns a spec that loads the module of the new name; else None."""
        if not fullname.startswith("hookline.") or _has_stayed(fullname, path or ()):
            return None
        new = new_name(fullname)
        return None if new is None else ModuleSpec(fullname, _AliasLoader(new))


def _has_stayed(fullname: str, path: Sequence[str]) -> bool:
    """Whether a module's file is in its package, which has not moved itself.

    A folder is no sign: an update of a checkout leaves those that have its caches.
    """
    package, _, name = fullname.rpartition(".")
    if sys.modules[package].__name__ != package:
        return False
    files = (f"{each}/{name}{end}" for each in path for end in _ENDS)
    return any(isfile(file) for file in files)  # noqa: PTH113 - each import asks


def find_moved_modules() -> None:
    """Lets old names be imported; may be called twice.

    The finder comes first, or modules inside of a package that has moved would be
    loaded a second time, from its folder.
    """
    if not any(isinstance(each, MovedModules) for each in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
