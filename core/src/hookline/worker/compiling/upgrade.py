"""Brings kernels to an engine that serves without them meanwhile."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from hookline.config import EngineConfig
from hookline.worker.compiling.compiler_process import CompilerProcess
from hookline.worker.compiling.messages import CompilationRefused
from hookline_registry import Failure, isolate

_log = logging.getLogger(__name__)

T = TypeVar("T")


class KernelUpgrade(Generic[T]):
    """A thread that has the missing kernels compiled, and then builds what uses them.

    It ends by itself. If kernels cannot be compiled or what is built with them fails,
    the log has a warning, and nothing is taken over.

    Attributes:
        is_running: Whether something may still come.
    """

    def __init__(self, config: EngineConfig, build: Callable[[], T]) -> None:
        """Starts the thread and a process that compiles.

        Args:
            config: The engine's configuration.
            build: Called in the thread once the kernels are in the cache.
        """
        self._build = build
        self._built: T | None = None
        self._is_closed = Event()
        self.is_running = True
        self._compiler = CompilerProcess(config, is_background=True)
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
            count += 1
        seconds = time.monotonic() - started
        _log.info("compiled %d kernels in %.1f s", count - 1, seconds)
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
