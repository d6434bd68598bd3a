"""Imports xgrammar without torch and transformers, where these are not loaded yet.

xgrammar needs torch to apply masks and transformers to read tokenizers; neither is done
here. A process that only compiles grammars would otherwise spend seconds and hundreds
of megabytes on them.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Absent(ModuleType):
    """Stands for a package while others import names of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # as that of a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda *_, **__: None})


def import_xgrammar() -> Any:
    """Returns the package `xgrammar`."""
    if "xgrammar" in sys.modules or "torch" in sys.modules:
        return import_module("xgrammar")
    loaded: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
    loaded["torch"] = None  # as if it were not installed
    try:
        import_module("tvm_ffi")
    finally:
        del loaded["torch"]
    names = [each for each in ("torch", "transformers") if each not in sys.modules]
    try:
        for name in names:
            sys.modules[name] = _Absent(name)
        return import_module("xgrammar")
    finally:
        for name in names:
            del sys.modules[name]
