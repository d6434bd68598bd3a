"""Names that a package imports on first access (PEP 562)."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType


def lazy_exports(
    package: str,
    homes: Mapping[str, Sequence[str]],
    moved: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Callable[[str], object]:
    """Returns the package's `__getattr__`.

    Args:
        package: Its name.
        homes: Its names, by the modules that define them.
        moved: Names that have moved to other distributions, likewise; they work here
            for one more release.
    """
    both = (*homes.items(), *moved.items())
    modules = {name: module for module, names in both for name in names}

    def find(name: str) -> object:
        if (module := modules.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module in moved:
            warnings.warn(
                f"{package}.{name} has moved to {module}; the old name will go with "
                "the next release",
                DeprecationWarning,
                stacklevel=2,
            )
        return getattr(import_module(module), name)

    return find
