"""Client of engines in their own processes, over sockets private to this user."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.core.commands import Command, Reply
from hookline.exceptions import ConfigError, EngineDeadError, ModelLoadError
from hookline.transport.engine_client import EngineDied, EngineInfo, Received
from hookline.transport.forked_children import release_in_forked_children
from hookline.transport.ipc import IpcTransport, private_folder
from hookline.transport.launched_engine import LaunchedEngine
from hookline.transport.mailbox import Mail, Mailbox
from hookline.transport.messages import (
    Failed,
    Hello,
    Output,
    Ready,
    Start,
    StartFailed,
    ToClient,
)
from hookline.transport.process_inspector import ProcessInspector, stacks_file
from hookline.transport.transport import Party, Role
from hookline.worker.startup_timer import StartupTimer

_LIVENESS_SECONDS = 0.1
"""Interval of liveness checks while an engine sends nothing."""
_GRACE_SECONDS = 2.0
_CLOSED = "it was closed"


class ProcessClient:
    """An `EngineClient` that owns an engine process for each configuration."""

    def __init__(self, *configs: EngineConfig, client_index: int = 0) -> None:
        """Starts the processes and waits until their models are ready.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            EngineDeadError: A process ended before it was ready.
            SchemaVersionError: A process runs another version of Hookline.
        """
        self.index = client_index
        self.engines: dict[int, EngineInfo] = {}
        self._deaths: dict[int, str] = {}
        self._launched: dict[int, LaunchedEngine] = {}
        self._is_closed = False
        self._folder = private_folder()
        release_in_forked_children(self._folder, self._pipes)
        me = Party(Role.CLIENT, client_index)
        self._transport = IpcTransport(self._folder, me)
        self._mailbox: Mailbox[ToClient] = Mailbox(
            self._transport, me, msgspec.msgpack.Decoder(ToClient), self._key_of
        )
        try:
            self._start({config.engine_index: config for config in configs})
        except BaseException:
            self.close()
            raise
        self._mailbox.is_shaking_hands = False

    @property
    def pids(self) -> Mapping[int, int]:
        """Process id of each engine, by the engine's index."""
        return {index: each.pid for index, each in self._launched.items()}

    @property
    def processes(self) -> "ProcessClient":
        return self

    def inspector(self, engine_index: int) -> ProcessInspector:
        pid = self._launched[engine_index].pid
        return ProcessInspector(pid, stacks_file(self._folder, engine_index))

    @property
    def dropped(self) -> int:
        """Messages dropped because they were not valid."""
        return self._mailbox.dropped

    def send(self, engine_index: int, command: Command) -> None:
        if (reason := self._deaths.get(engine_index)) is not None:
            raise EngineDeadError(reason)
        self._mailbox.send(Party(Role.ENGINE, engine_index), command)

    def receive(self, timeout_seconds: float) -> Received | None:
        deadline = time.monotonic() + timeout_seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            mail = self._next_mail(left)
            if isinstance(mail, EngineDied):
                return mail
            if mail is not None and (received := self._received(mail)) is not None:
                return received
            if mail is None and left == 0:
                return None

    def close(self) -> None:
        """Ends the processes, gently at first, and removes the sockets."""
        if self._is_closed:
            return
        self._is_closed = True
        for index, launched in self._launched.items():
            self._deaths.setdefault(index, _CLOSED)
            launched.ask_to_end()
        deadline = time.monotonic() + _GRACE_SECONDS
        for launched in self._launched.values():
            launched.end(max(0.0, deadline - time.monotonic()))
        self._transport.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _pipes(self) -> list[int]:
        pipes = (each.pipe for each in self._launched.values())
        return [each for each in pipes if each is not None]

    def _start(self, configs: Mapping[int, EngineConfig]) -> None:
        timer = StartupTimer(SystemClock())
        with timer.phase("start engine process"):
            for index in configs:
                self._launched[index] = LaunchedEngine(self._folder, index, self.index)
            while len(self.engines) < len(configs):
                mail = self._next_mail(1.0)
                if isinstance(mail, EngineDied):
                    raise EngineDeadError(mail.reason)
                if mail is not None and mail.sender.index in configs:
                    self._shake_hands(mail, configs[mail.sender.index])
        for index, (facts, clock) in self.engines.items():
            startup = (*timer.phases(), *facts.startup)
            self.engines[index] = EngineInfo(replace(facts, startup=startup), clock)

    def _shake_hands(self, mail: Mail[ToClient], config: EngineConfig) -> None:
        message = mail.message
        if isinstance(message, Hello):
            self._transport.connect(mail.sender, message.address, max_waiting=0)
            executor = replace(config.executor, shares_cores=True)
            self._mailbox.send(mail.sender, Start(replace(config, executor=executor)))
        elif isinstance(message, Ready):
            self.engines[mail.sender.index] = EngineInfo(message.facts, message.clock)
        elif isinstance(message, StartFailed) and message.kind == "config":
            raise ConfigError(message.subject, message.detail)
        elif isinstance(message, StartFailed):
            raise ModelLoadError(message.subject, message.detail)
        elif isinstance(message, Failed):
            raise EngineDeadError(message.reason)

    def _next_mail(self, timeout_seconds: float) -> Mail[ToClient] | EngineDied | None:
        """Waits in slices, to detect a process's death quickly."""
        if len(self._deaths) == len(self._launched):
            raise EngineDeadError(next(iter(self._deaths.values())))
        deadline = time.monotonic() + timeout_seconds
        while True:
            ended = self._find_ended()
            left = max(0.0, deadline - time.monotonic())
            mail = self._mailbox.receive(min(left, _LIVENESS_SECONDS))
            if mail is not None:
                return mail
            if ended is not None:  # and all that it had sent is taken
                return self._bury(*ended)
            if left == 0:
                return None

    def _received(self, mail: Mail[ToClient]) -> Received | None:
        index, message = mail.sender.index, mail.message
        if index not in self._launched or index in self._deaths:
            return None
        if isinstance(message, Output):
            return message.output
        if isinstance(message, Reply):
            return message
        if isinstance(message, Failed):
            return self._bury(index, message.reason)
        return None

    def _find_ended(self) -> tuple[int, str] | None:
        for index, launched in self._launched.items():
            if index not in self._deaths and (reason := launched.end_reason):
                return index, reason
        return None

    def _key_of(self, engine: Party) -> bytes | None:
        launched = self._launched.get(engine.index)
        if launched is None or engine.role is not Role.ENGINE:
            return None
        return launched.key

    def _bury(self, index: int, reason: str) -> EngineDied:
        self._deaths[index] = reason
        return EngineDied(index, reason)
