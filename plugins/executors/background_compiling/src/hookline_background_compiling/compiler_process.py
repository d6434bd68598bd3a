"""Starts a process that compiles the kernels of an engine, and reads its reports."""

import os
import signal
import time
from collections.abc import Iterator

import msgspec

from hookline.config.engine import EngineConfig
from hookline.frozen import plain
from hookline_background_compiling.messages import CompilationRefused, CompilerMessage
from hookline_processes.supervised import Output, Supervised

_LIMIT_SECONDS = 900.0
_END_SECONDS = 10.0
"""Time for the process to end those that it has started, and itself."""
_NICENESS = 5
"""Steps that run at the same time get three quarters of a core: they take several times
as long without kernels, so the compilation must not starve, either."""
_SINGLE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Environment of a process that forks others: OpenMP would not survive that."""


class CompilerProcess:
    """A process that compiles what an engine of one configuration needs."""

    def __init__(self, config: EngineConfig, *, is_background: bool) -> None:
        """Starts the process; in the background it is nice to others, and silent."""
        self._is_background = is_background
        self._process = Supervised(
            "hookline_background_compiling.process",
            name="the kernel compiler",
            role="compiler",
            environment={**os.environ, **_SINGLE_THREAD},
            output=Output.NONE if is_background else Output.OUTPUT,
        )
        self._config = config

    def messages(self) -> Iterator[CompilerMessage]:
        """Yields reports until the last one, which is no `KernelCompiled`."""
        process, deadline = self._process, time.monotonic() + _LIMIT_SECONDS
        if self._is_background:
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        process.send_bytes(msgspec.msgpack.encode(self._config, enc_hook=plain))
        decoder = msgspec.msgpack.Decoder(CompilerMessage)
        while (data := process.receive_bytes(deadline - time.monotonic())) is not None:
            yield decoder.decode(data)
        if time.monotonic() >= deadline:
            process.signal(signal.SIGTERM)
        process.close(_END_SECONDS)
        if process.exit_code != 0:
            yield CompilationRefused(f"the kernel compiler: {process.end_reason}")

    def close(self) -> None:
        """Ends the process and those that it has started; may be called twice."""
        self._process.signal(signal.SIGTERM)
        self._process.close(_END_SECONDS)
