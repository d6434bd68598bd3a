"""What happens to a kernel that has not been compiled on this machine yet.

By default it is compiled where it is asked for. Within `when_missing`, a handler
decides: `OnlyCached` refuses, so that an engine can serve by other means until the
kernels are there, and `CompileFarm` compiles several at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class CompiledKernel(Protocol):
    """Machine code, which is owned by this object.

    Attributes:
        address: Address of the function.
    """

    @property
    def address(self) -> int: ...


class MissingKernels(Protocol):
    """Handles kernels that are not in the cache."""

    def take(
        self, variant: str, compile_now: Callable[[], CompiledKernel]
    ) -> CompiledKernel:
        """Returns the kernel, whose address may have to be waited for.

        Args:
            variant: Name of the kernel in the cache.
            compile_now: Compiles it and writes it to the cache; reads it from there
                once it is in it. May raise `KernelError`.
        """
        ...


class KernelMissingError(Exception):
    """A kernel is not in the cache, and must not be compiled now.

    No `KernelError`: nothing else should take the kernel's place for good.

    Attributes:
        variant: Name of the kernel in the cache.
    """

    def __init__(self, variant: str) -> None:
        super().__init__(f"the kernel {variant} has not been compiled yet")
        self.variant = variant


class OnlyCached:
    """Refuses to compile.

    Attributes:
        missing: Names of the kernels that were asked for in vain.
    """

    def __init__(self) -> None:
        self.missing: list[str] = []

    def take(self, variant: str, _: Callable[[], CompiledKernel]) -> CompiledKernel:
        """Implements `MissingKernels`.

        Raises:
            KernelMissingError: Always.
        """
        self.missing.append(variant)
        raise KernelMissingError(variant)


_handler: ContextVar[MissingKernels | None] = ContextVar("handler", default=None)


@contextmanager
def when_missing(handler: MissingKernels) -> Iterator[None]:
    """Has the handler take all kernels that this thread misses in the cache."""
    token = _handler.set(handler)
    try:
        yield
    finally:
        _handler.reset(token)


def current_handler() -> MissingKernels | None:
    """Returns the handler of the innermost `when_missing`; None outside of any."""
    return _handler.get()
