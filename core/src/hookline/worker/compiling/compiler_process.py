"""Starts a process that compiles the kernels of an engine, and reads its reports."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec

from hookline.config.engine import EngineConfig
from hookline.worker.compiling.messages import CompilationRefused, CompilerMessage
from hookline_processes.supervised import end_by_force

_LIMIT_SECONDS = 900.0
_END_SECONDS = 10.0
"""Time for the process to end those that it has started, and itself."""
_NICENESS = 5
"""Steps that run at the same time get three quarters of a core: they take several times
as long without kernels, so the compilation must not starve, either."""
_SINGLE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Environment of a process that forks others, and must have no other threads."""


class CompilerProcess:
    """A process that compiles what an engine of one configuration needs."""

    def __init__(self, config: EngineConfig, *, is_background: bool) -> None:
        """Starts the process; in the background it is nice to others, and silent."""
        self._is_background = is_background
        self._process = subprocess.Popen(  # noqa: S603 - no input of anyone else
            [
                sys.executable,
                "-m",
                "hookline.worker.compiling.process",
                str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if is_background else None,
            env={**os.environ, **_SINGLE_THREAD},
        )
        self._config = config

    def messages(self) -> Iterator[CompilerMessage]:
        """Yields reports until the last one, which is no `KernelCompiled`."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        if self._is_background:
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        limit = threading.Timer(_LIMIT_SECONDS, process.terminate)
        limit.daemon = True
        limit.start()
        try:
            with process.stdin as stdin:
                stdin.write(msgspec.json.encode(self._config))
            with process.stdout as reports:
                for line in reports:
                    yield msgspec.json.decode(line, type=CompilerMessage)
        except (BrokenPipeError, msgspec.MsgspecError):
            pass  # it has ended, perhaps amid a line
        finally:
            limit.cancel()
        if (code := self._end()) != 0:
            yield CompilationRefused(
                f"the compiling process ended with exit code {code}"
            )

    def close(self) -> None:
        """Ends the process and those that it has started; may be called twice."""
        self._process.terminate()
        self._end()

    def _end(self) -> int | None:
        """Waits for the end, and kills the process if that takes long."""
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            end_by_force(self._process, "the kernel compiler")
            return self._process.poll()
