"""Names that a package imports on first access (PEP 562)."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from hookline.moved_modules import moved_name


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
        return getattr(import_module(module), name)

    return find
