"""The engine process: `python -m hookline.transport.engine_process FOLDER`.

Its front end has bound two sockets in FOLDER, which only this user may enter, and holds
the other end of its standard input: when that closes, the front end is gone, and so is
this process.
"""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import msgspec
import zmq

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.core.building import build_core
from hookline.core.commands import Command
from hookline.core.engine_loop import EngineLoop
from hookline.core.failure import FailureNotice
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.transport.messages import (
    ANSWERS_SOCKET,
    COMMANDS_SOCKET,
    Answer,
    Failed,
    Output,
    Ready,
    StartFailed,
)

_IDLE_SECONDS = 60.0


class Wire:
    """The engine's ends of the two sockets, in msgpack."""

    def __init__(self, folder: Path) -> None:
        self._context = zmq.Context(io_threads=1)
        self._commands = self._context.socket(zmq.PULL)
        self._answers = self._context.socket(zmq.PUSH)
        self._commands.connect(f"ipc://{folder / COMMANDS_SOCKET}")
        self._answers.connect(f"ipc://{folder / ANSWERS_SOCKET}")
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(Command).decode

    def receive_config(self) -> EngineConfig:
        return msgspec.msgpack.decode(self._commands.recv(), type=EngineConfig)

    def receive(self, timeout_seconds: float) -> Command | None:
        if not self._commands.poll(round(timeout_seconds * 1000)):
            return None
        command: Command = self._decode(self._commands.recv())
        return command

    def send(self, answer: Answer) -> None:
        self._answers.send(self._encode(answer))

    def close(self) -> None:
        """Sends what is left, for a second at most."""
        self._commands.close(linger=0)
        self._answers.close(linger=1000)
        self._context.term()


def main(folder: Path) -> int:
    """Serves one front end until it goes away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the front end decides when to end
    threading.Thread(target=_end_with_front_end, args=[folder], daemon=True).start()
    wire = Wire(folder)
    try:
        with FailureNotice(lambda reason: wire.send(Failed(reason))):
            return _serve(wire)
    finally:
        wire.close()


def _serve(wire: Wire) -> int:
    config = wire.receive_config()
    try:
        core = build_core(config, SystemClock())
    except ConfigError as error:
        wire.send(StartFailed("config", error.option, error.detail))
        return 1
    except ModelLoadError as error:
        wire.send(StartFailed("model", error.model, error.reason))
        return 1
    wire.send(Ready(core.facts, core.clock_pair()))
    loop = EngineLoop(core, config.observers.heartbeat_seconds)
    while True:
        if (output := loop.turn(wire.receive, _IDLE_SECONDS)) is not None:
            wire.send(Output(output))


def _end_with_front_end(folder: Path) -> None:
    sys.stdin.buffer.read()
    shutil.rmtree(folder, ignore_errors=True)  # it may have had no time to
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
