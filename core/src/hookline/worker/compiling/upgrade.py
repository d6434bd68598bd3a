"""Brings kernels to an engine that serves without them meanwhile."""

import logging
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Generic, Protocol, TypeVar

from hookline.worker.compiling.messages import (
    CompilationRefused,
    CompilerMessage,
    KernelCompiled,
)
from hookline_registry import Failure, isolate

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Compiler(Protocol):
    """Compiles kernels elsewhere."""

    def messages(self) -> Iterator[CompilerMessage]:
        """Yields reports until the last one, which is no `KernelCompiled`."""
        ...

    def close(self) -> None:
        """Ends it at once; may be called twice, and by another thread."""
        ...


class KernelUpgrade(Generic[T]):
    """A thread that has the missing kernels compiled, and then builds what uses them.

    It ends by itself. If kernels cannot be compiled or what is built with them fails,
    the log has a warning, and nothing is taken over.

    Attributes:
        is_running: Whether something may still come.
    """

    def __init__(self, compiler: Compiler, build: Callable[[], T]) -> None:
        """Starts the thread.

        Args:
            compiler: Compiles; ends with this object.
            build: Called in the thread once the kernels are in the cache.
        """
        self._compiler, self._build = compiler, build
        self._built: T | None = None
        self._is_closed = Event()
        self.is_running = True
        self._thread = Thread(target=self._run, name="hookline-kernels", daemon=True)
        self._thread.start()

    def take(self) -> T | None:
        """Returns what was built, once; None before, and if there is nothing."""
        built, self._built = self._built, None
        return built

    def close(self) -> None:
        """Ends the process and the thread; waits for a build that has begun."""
        self._is_closed.set()
        self._compiler.close()
        self._thread.join()
        self._built = None

    def _run(self) -> None:
        try:
            if self._compile():
                self._built = self._use_kernels()
        finally:
            self.is_running = False

    def _compile(self) -> bool:
        """Returns whether the kernels are in the cache."""
        _log.info("kernels are compiled in the background; steps use torch meanwhile")
        started, count = time.monotonic(), 0
        for message in self._compiler.messages():
            if self._is_closed.is_set():
                return False
            if isinstance(message, CompilationRefused):
                _log.warning("steps go on with torch: %s", message.reason)
                return False
            if isinstance(message, KernelCompiled):
                count += message.succeeded
                if not message.succeeded:
                    _log.warning("kernel %s could not be compiled", message.variant)
        seconds = time.monotonic() - started
        _log.info("compiled %d kernels in %.1f s", count, seconds)
        return True

    def _use_kernels(self) -> T | None:
        """Builds what uses the kernels; None if that fails."""
        built = isolate(self._build)
        if isinstance(built, Failure):
            _log.warning(
                "steps go on with torch: the kernels cannot be used",
                exc_info=built.error,
            )
            return None
        return built
