"""The engine in a process of its own, over ZMQ on sockets only this user reaches."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import zmq

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.core.commands import Add, Command, Finish, ResetPrefixCache
from hookline.events import StepOutput
from hookline.exceptions import ConfigError, EngineDeadError, ModelLoadError
from hookline.finish_cause import FinishCause
from hookline.request import EngineRequest
from hookline.transport.messages import (
    ANSWERS_SOCKET,
    COMMANDS_SOCKET,
    Answer,
    Failed,
    Output,
    Ready,
    StartFailed,
)
from hookline.worker.startup_timer import StartupTimer

_LIVENESS_SECONDS = 0.1
"""How often the process is looked after while nothing comes from it."""
_GRACE_SECONDS = 2.0
PATIENT_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For the engine's OpenMP threads, unless the user's environment says otherwise.

A server, its clients and whatever else runs here share the processors. Threads that
spin while they wait for one another take them away from those that have work: beside
one busy process a step then takes ten times as long.
"""


class ProcessClient:
    """An `EngineClient` that owns an engine process and ends it.

    `receive` belongs to one thread, everything else to another: the two sockets are
    not shared.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Starts the process and waits until its model is ready.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            EngineDeadError: The process ended before it was ready.
        """
        self._dead: str | None = None
        self._folder = _private_folder()
        self._context = zmq.Context(io_threads=1)
        self._commands = self._context.socket(zmq.PUSH)
        self._answers = self._context.socket(zmq.PULL)
        self._commands.set_hwm(0)
        self._commands.bind(f"ipc://{self._folder / COMMANDS_SOCKET}")
        self._answers.bind(f"ipc://{self._folder / ANSWERS_SOCKET}")
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Answer).decode
        timer = StartupTimer(SystemClock())
        with timer.phase("start engine process"):
            self._process = subprocess.Popen(  # noqa: S603 - no input of anyone else
                [
                    sys.executable,
                    "-m",
                    "hookline.transport.engine_process",
                    str(self._folder),
                ],
                stdin=subprocess.PIPE,
                env={**PATIENT_THREADS, **os.environ},
            )
            try:
                executor = replace(config.executor, shares_cores=True)
                self._transmit(self._encode(replace(config, executor=executor)))
                ready = self._wait_until_ready()
            except BaseException:
                self.close()
                raise
        startup = (*timer.phases(), *ready.facts.startup)
        self.facts = replace(ready.facts, startup=startup)
        self.clock = ready.clock

    @property
    def pid(self) -> int:
        """Of the engine process."""
        return self._process.pid

    def add(self, request: EngineRequest) -> None:
        self._send(Add(request))

    def finish(self, request_ids: Sequence[int], cause: FinishCause) -> None:
        self._send(Finish(list(request_ids), cause))

    def reset_prefix_cache(self) -> None:
        self._send(ResetPrefixCache())

    def receive(self, timeout_seconds: float) -> StepOutput | None:
        answer = self._next_answer(timeout_seconds)
        if answer is None:
            return None
        if isinstance(answer, Output):
            return answer.output
        raise self._death(answer.reason if isinstance(answer, Failed) else str(answer))

    def close(self) -> None:
        """Ends the process, gently at first, and removes the sockets."""
        self._dead = self._dead or "it was closed"
        if self._context.closed:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self) -> Ready:
        while (answer := self._next_answer(1.0)) is None:
            pass
        if isinstance(answer, Ready):
            return answer
        if isinstance(answer, StartFailed):
            if answer.kind == "config":
                raise ConfigError(answer.subject, answer.detail)
            raise ModelLoadError(answer.subject, answer.detail)
        raise self._death(answer.reason if isinstance(answer, Failed) else str(answer))

    def _next_answer(self, timeout_seconds: float) -> Answer | None:
        """Waits in slices, so that a process that died is noticed at once."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            if self._dead is not None:
                raise EngineDeadError(self._dead)
            left = max(0.0, deadline - time.monotonic())
            code = self._process.poll()
            if self._answers.poll(round(min(left, _LIVENESS_SECONDS) * 1000)):
                answer: Answer = self._decode(self._answers.recv())
                return answer
            if code is not None:
                raise self._ended(code)
            if left == 0:
                return None

    def _death(self, reason: str) -> EngineDeadError:
        self._dead = reason
        return EngineDeadError(reason)

    def _send(self, command: Command) -> None:
        self._transmit(self._encode(command))

    def _transmit(self, message: bytes) -> None:
        """Sends; a socket without its peer would wait for ever, so it is not asked to.

        The socket takes any number of messages, so that it waits for nothing else.
        """
        while self._dead is None:
            try:
                self._commands.send(message, zmq.NOBLOCK)
            except zmq.Again:
                if (code := self._process.poll()) is not None:
                    raise self._ended(code) from None
                self._commands.poll(round(_LIVENESS_SECONDS * 1000), zmq.POLLOUT)
            else:
                return
        raise EngineDeadError(self._dead)

    def _ended(self, code: int) -> EngineDeadError:
        return self._death(f"its process ended with exit code {code}")


def _private_folder() -> Path:
    """A new folder that only this user may enter, its sockets' paths short enough."""
    usual = Path(tempfile.gettempdir())
    longest = usual / "hookline-12345678" / COMMANDS_SOCKET
    fits = len(str(longest).encode()) <= zmq.IPC_PATH_MAX_LEN
    return Path(tempfile.mkdtemp(prefix="hookline-", dir=usual if fits else "/tmp"))  # noqa: S108
