"""Defers the import of torch's compiler until something of it is used."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

import torch

_NAME = "torch._dynamo"
_SMALL_PART = f"{_NAME}._trace_wrapped_higher_order_op"
"""What `transformers` imports of it; it works without the rest."""

F = TypeVar("F", bound=Callable[..., object])


class DeferredCompiler(ModuleType):
    """The package `torch._dynamo`, which becomes the real one at its first use.

    Code of `transformers` imports it for decorators that only tell the compiler what to
    leave alone, and for a module inside. These work without it. Anything else that is
    looked up loads it, and so does an import of another module inside, which asks for
    `__path__`.
    """

    _lock = RLock()

    @classmethod
    def install(cls) -> bool:
        """Defers the import in this process.

        Returns:
            False if the compiler has been imported already, or is missing.
        """
        if _NAME in sys.modules or (spec := find_spec(_NAME)) is None:
            return False
        module = module_from_spec(spec)
        module.__class__ = cls
        sys.modules[_NAME] = module
        with suppress(ModuleNotFoundError):
            import_module(_SMALL_PART)
        del module.__path__
        torch._dynamo = module  # noqa: SLF001 - as an import does
        return True

    def disable(
        self, function: F | None = None, *_: object, **__: object
    ) -> F | Callable[[F], F]:
        """As `torch.compiler.disable`: here nothing is compiled anyway."""
        return (lambda each: each) if function is None else function

    def allow_in_graph(self, function: F) -> F:
        """As `torch.compiler.allow_in_graph`."""
        return function

    def assume_constant_result(self, function: F) -> F:
        """As `torch.compiler.assume_constant_result`."""
        return function

    def __getattr__(self, name: str) -> Any:
        """Loads the compiler; called for names that are not here."""
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        with self._lock:
            if type(self) is DeferredCompiler:
                self._load()
        return getattr(self, name)

    def _load(self) -> None:
        spec = self.__spec__
        assert isinstance(spec, ModuleSpec)
        assert spec.loader is not None
        assert spec.submodule_search_locations is not None
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__path__ = spec.submodule_search_locations
        spec.loader.exec_module(self)
