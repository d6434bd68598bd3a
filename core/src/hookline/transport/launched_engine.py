"""Starts an engine process, watches it and ends it."""

import os
import subprocess
import sys
from pathlib import Path

PATIENT_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of the engine's OpenMP threads, unless the user sets it otherwise.

A server, its clients and other programs share the processors. Threads that spin while
they wait for each other take processors away from threads that have work: beside one
busy process a step then takes ten times as long.
"""


class LaunchedEngine:
    """An engine process that this process owns."""

    def __init__(self, folder: Path, engine_index: int, owner_index: int) -> None:
        module = "hookline.transport.engine_process"
        indices = (str(engine_index), str(owner_index))
        self._process = subprocess.Popen(  # noqa: S603 - no input of anyone else
            [sys.executable, "-m", module, str(folder), *indices],
            stdin=subprocess.PIPE,
            env={**PATIENT_THREADS, **os.environ},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the process runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """Closes the standard input of the process, on which it ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self, timeout_seconds: float) -> None:
        """Waits for the end; kills the process if it takes longer."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
