"""Brings kernels to an engine that serves without them meanwhile."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Generic, Protocol, TypeVar

from hookline.engine.worker.executor import Compute
from hookline.engine.worker.forward import Forward
from hookline.engine.worker.runner_maker import Allocation, RunnerMaker
from hookline.engine.worker.worker import Worker
from hookline.step import StepPlan, StepResult
from hookline_background_compiling.compiler_process import CompilerProcess
from hookline_background_compiling.messages import (
    CompilationRefused,
    CompilerMessage,
    KernelCompiled,
)
from hookline_kernels.runtime.gc_freeze import unfreeze_gc
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

    def pop(self) -> T | None:
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


class WorkerUpgrade:
    """Implements `Upgrade`: has a worker's kernels compiled, and takes them over."""

    def __init__(self, make_forward: Callable[[], Forward]) -> None:
        """Starts nothing yet.

        Args:
            make_forward: Makes the forward pass that uses kernels, once they are there.
        """
        self._make_forward = make_forward
        self._running: KernelUpgrade[tuple[RunnerMaker, Allocation]] | None = None

    def serve_meanwhile(self, worker: Worker) -> Compute:
        """Implements `Upgrade`."""
        compiler = CompilerProcess(worker.config, is_background=True)
        upgrade = KernelUpgrade(compiler, partial(self._build, worker))
        self._running = upgrade
        return partial(self._compute_meanwhile, worker, upgrade, worker.execute)

    def abandon(self) -> None:
        """Implements `Upgrade`."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _compute_meanwhile(
        self,
        worker: Worker,
        upgrade: KernelUpgrade[tuple[RunnerMaker, Allocation]],
        compute: Compute,
        plan: StepPlan,
    ) -> StepResult:
        """Computes a step by torch, or takes over the kernels once they are there."""
        if (built := upgrade.pop()) is None:
            is_compiling = upgrade.is_running
            return compute(plan).with_execution(kernels_compiling=is_compiling)
        unfreeze_gc()
        self.abandon()
        worker.use(*built)
        maker, kept = worker.maker, worker.allocated
        forward = maker.model.forward
        _log.info("kernels are in use: %s", maker.kernels_in_use(forward, kept.cache))
        return worker.execute(plan)

    def _build(self, worker: Worker) -> tuple[RunnerMaker, Allocation]:
        """Builds what the next step may use; runs beside steps that do not."""
        model = replace(worker.maker.model, forward=self._make_forward(), upgrade=None)
        maker = worker.maker.with_kernels(model)
        cache = worker.allocated.cache.with_kernels()
        return maker, replace(worker.allocated, cache=cache, feed=maker.feed(cache))
