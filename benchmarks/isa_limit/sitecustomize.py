"""Makes torch report a lesser processor, in every Python process of a compared side.

The folder is on PYTHONPATH of peers that compare.py limits to an instruction set. The
names in HOOKLINE_BENCH_HIDDEN_FEATURES are prefixes of features of
`torch.cpu.get_capabilities`, on which `torch.cpu`'s checks rest, and with them vLLM's
choice of kernels and extension and torch's compiler. Nothing is imported earlier than
without it: the change waits for the import of `torch.cpu`.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

HIDDEN = tuple(os.environ.get("HOOKLINE_BENCH_HIDDEN_FEATURES", "").split())
MODULE = "torch.cpu"


def without(
    capabilities: Mapping[str, object], prefixes: tuple[str, ...]
) -> Mapping[str, object]:
    """Returns the capabilities with those of the prefixes absent."""
    return MappingProxyType(
        {
            name: False if name.startswith(prefixes) else value
            for name, value in capabilities.items()
        }
    )


class _Loader(importlib.abc.Loader):
    """Loads the module as ever, and then replaces its answer."""

    def __init__(self, inner: importlib.abc.Loader) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        hide(module)


def hide(module: Any) -> None:
    """Lets torch's module of CPU features report fewer."""
    capabilities = without(module.get_capabilities(), HIDDEN)
    module.get_capabilities = lambda: capabilities


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module by the other finders, and wraps its loader."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


if HIDDEN:
    sys.meta_path.insert(0, _Finder())
