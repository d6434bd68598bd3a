"""Client of engines in their own processes, over sockets private to this user."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, TypeVar, cast

import msgspec

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.engine.commands import Command, Reply
from hookline.exceptions import (
    ConfigError,
    EngineDeadError,
    HooklineError,
    ModelLoadError,
)
from hookline.startup_timer import StartupTimer
from hookline.transport.engine_client import (
    DeathKind,
    EngineDied,
    EngineInfo,
    Received,
)
from hookline_process_engine.capabilities import EngineProcesses, EngineReplaced
from hookline_process_engine.ipc import IpcTransport, socket_folder
from hookline_process_engine.launched_engine import LaunchedEngine, config_of_process
from hookline_process_engine.mailbox import Mail, Mailbox
from hookline_process_engine.messages import (
    Failed,
    Hello,
    Output,
    Ready,
    Start,
    StartFailed,
    ToClient,
)
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_process_engine.transport import Party, Role
from hookline_processes.forked_children import release_folder_in_forked_children
from hookline_processes.inspector import ProcessInspector, stacks_file

T = TypeVar("T")
_LIVENESS_SECONDS = 0.1
"""Interval of liveness checks while an engine sends nothing."""
_LOOK_SECONDS = 0.05
"""Least time between two looks whether a process has ended."""
_GRACE_SECONDS = 2.0
_CLOSED = "it was closed"


class ProcessClient:
    """An `EngineClient` that owns an engine process for each configuration.

    Attributes:
        message_type: What engine processes may send.
    """

    owns_engines = True
    message_type: ClassVar[object] = ToClient

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
        self._configs = {config.engine_index: config for config in configs}
        self._can_replace = any(
            SupervisionConfig.of(each).engine_restart for each in configs
        )
        self._kill_reasons: dict[int, str] = {}
        self._due: dict[int, float] = {}
        self._drain_grace: dict[int, float] = {}
        self._starting: set[int] = set()
        self._num_launched = dict.fromkeys(self._configs, 1)
        self._dropped_there = dict.fromkeys(self._configs, 0)
        self._ended: EngineDied | None = None
        self._is_closed, self._looks_at = False, 0.0
        self._folder = socket_folder()
        release_folder_in_forked_children(self._folder)
        self._me = Party(Role.CLIENT, client_index)
        self._transport = IpcTransport(self._folder, self._me)
        kind = cast("type[msgspec.Struct]", self.message_type)
        decoder = msgspec.msgpack.Decoder(kind)
        self._mailbox = Mailbox(self._transport, self._me, decoder, self._key_of)
        try:
            self._begin()
            self._start(self._configs)
        except BaseException:
            self.close()
            raise
        self._mailbox.is_shaking_hands = False

    @property
    def pids(self) -> Mapping[int, int]:
        """Process id of each engine, by the engine's index."""
        return {index: each.pid for index, each in list(self._launched.items())}

    def capability(self, kind: type[T]) -> T | None:
        return cast("T", self) if kind is EngineProcesses else None

    def inspector(self, engine_index: int) -> ProcessInspector | None:
        if (launched := self._launched.get(engine_index)) is None:
            return None
        pid, info = launched.pid, self.engines.get(engine_index)
        facts = None if info is None else info.facts
        # On other machines other processes have these ids.
        ranks = () if facts is None or facts.rank_hosts else facts.rank_pids
        return ProcessInspector(pid, stacks_file(self._folder, engine_index), ranks)

    def kill(self, engine_index: int, reason: str) -> None:
        if (launched := self._launched.get(engine_index)) is not None:
            self._kill_reasons[engine_index] = reason
            launched.kill()

    def replace(self, engine_index: int, after_seconds: float) -> None:
        # The receiving thread starts it: it owns the handshake.
        self._due[engine_index] = time.monotonic() + after_seconds

    # -- messages ----------------------------------------------------------------

    @property
    def dropped(self) -> int:
        return self._mailbox.dropped + sum(self._dropped_there.values())

    def send(self, engine_index: int, command: Command) -> None:
        if (reason := self._deaths.get(engine_index)) is not None:
            raise EngineDeadError(reason)
        self._mailbox.post(Party(Role.ENGINE, engine_index), command)

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
            launched.hang_up()
        deadline = time.monotonic() + _GRACE_SECONDS
        for launched in self._launched.values():
            launched.close(max(0.0, deadline - time.monotonic()))
        self._transport.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, configs: Mapping[int, EngineConfig]) -> None:
        timer = StartupTimer(SystemClock())
        with timer.phase("start engine process"):
            for index in configs:
                self._launched[index] = self._start_process(index)
            while len(self.engines) < len(configs):
                mail = self._next_mail(1.0)
                if isinstance(mail, EngineDied):
                    raise EngineDeadError(mail.reason)
                if mail is not None and mail.sender.index in configs:
                    self._shake_hands(mail, configs[mail.sender.index])
        for index, (facts, clock) in self.engines.items():
            startup = (*timer.phases(), *facts.startup)
            self.engines[index] = EngineInfo(replace(facts, startup=startup), clock)

    def _begin(self) -> None:
        """Makes what a subclass needs before the first process starts."""

    def _shake_hands(self, mail: Mail[msgspec.Struct], config: EngineConfig) -> None:
        message = mail.message
        if isinstance(message, Hello):
            self._transport.connect(mail.sender, message.address, max_waiting=0)
            executor = replace(config.executor, shares_cores=True)
            self._mailbox.post(mail.sender, Start(replace(config, executor=executor)))
        elif isinstance(message, Ready):
            index = mail.sender.index
            self.engines[index] = info = EngineInfo(message.facts, message.clock)
            self._is_ready(index, info)
        elif isinstance(message, StartFailed) and message.kind == "config":
            raise ConfigError(message.subject, message.detail)
        elif isinstance(message, StartFailed):
            raise ModelLoadError(message.subject, message.detail)
        elif isinstance(message, Failed):
            raise EngineDeadError(message.reason)

    def _is_ready(self, index: int, info: EngineInfo) -> None:
        """Lets a subclass tell others of a process that has become ready."""

    def _next_mail(
        self, timeout_seconds: float
    ) -> Mail[msgspec.Struct] | EngineDied | None:
        """Waits in slices, to detect a process's death quickly."""
        may_return = self._can_replace and not self._is_closed
        if len(self._deaths) == len(self._launched) and not may_return:
            raise EngineDeadError(next(iter(self._deaths.values())))
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._launch_due()
            ended = self._find_ended()
            if ended is not None and self._is_silent(ended.engine_index):
                return self._mark_dead(ended)
            left = max(0.0, deadline - time.monotonic())
            mail = self._mailbox.receive(min(left, _LIVENESS_SECONDS))
            if mail is not None:
                if mail.sender.index in self._drain_grace:
                    self._drain_grace[mail.sender.index] = time.monotonic()
                return mail
            if ended is not None:  # and all that it had sent is taken
                return self._mark_dead(ended)
            if left == 0:
                return None

    def _received(self, mail: Mail[msgspec.Struct]) -> Received | None:
        index, message = mail.sender.index, mail.message
        if index in self._starting:
            return self._take_start(index, mail)
        if index not in self._launched or index in self._deaths:
            return None
        if isinstance(message, Output):
            self._dropped_there[index] = message.dropped
            return message.output
        if isinstance(message, Reply):
            return message
        if isinstance(message, Failed):
            return self._mark_dead(EngineDied(index, message.reason))
        return self._take_news(index, message)

    def _take_news(self, index: int, message: msgspec.Struct) -> Received | None:
        """Lets a subclass take what only it understands."""
        del index, message
        return None

    def _launch_due(self) -> None:
        """Starts the processes whose time has come in place of the old ones."""
        now = time.monotonic()
        for index in [each for each, due in list(self._due.items()) if due <= now]:
            del self._due[index]
            self._end_process(index)
            self._launch(index)

    def _end_process(self, index: int) -> None:
        """Ends what is left of an engine's process, so that another may come."""
        old = self._launched[index]
        old.kill()
        old.close(_GRACE_SECONDS)
        self._transport.disconnect(Party(Role.ENGINE, index))
        self._kill_reasons.pop(index, None)

    def _launch(self, index: int) -> None:
        """Starts a process while others serve; if it cannot, that is its end."""
        try:
            self._launched[index] = self._start_process(index)
        except OSError as error:
            reason = f"its process cannot be started: {error}"
            self._ended = EngineDied(index, reason, DeathKind.START)
            return
        self._num_launched[index] = self._num_launched.get(index, 0) + 1
        self._starting.add(index)

    def _start_process(self, index: int) -> LaunchedEngine:
        return LaunchedEngine(self._folder, index, self.index)

    def _take_start(self, index: int, mail: Mail[msgspec.Struct]) -> Received | None:
        """Shakes hands with a process that starts while others serve."""
        try:
            config = config_of_process(self._configs[index], self._num_launched[index])
            self._shake_hands(mail, config)
        except HooklineError as error:
            return self._mark_dead(EngineDied(index, str(error), DeathKind.START))
        if not isinstance(mail.message, Ready):
            return None
        self._starting.discard(index)
        self._deaths.pop(index, None)
        return EngineReplaced(index, self.engines[index])

    def _find_ended(self) -> EngineDied | None:
        """Returns an engine whose process has ended, until it is marked dead.

        It looks once in a while: each look is a system call for each engine.
        """
        now = time.monotonic()
        if self._ended is None and now >= self._looks_at:
            self._looks_at = now + _LOOK_SECONDS
            self._ended = self._look()
        return self._ended

    def _look(self) -> EngineDied | None:
        for index, launched in self._launched.items():
            is_watched = index not in self._deaths or index in self._starting
            if is_watched and (reason := launched.end_reason) is not None:
                return self._death(index, reason)
        return None

    def _is_silent(self, index: int) -> bool:
        """Whether an engine that has ended has nothing left to be received.

        While others keep sending, there is no moment at which no mail is there.
        """
        now = time.monotonic()
        return now - self._drain_grace.setdefault(index, now) > _LIVENESS_SECONDS

    def _death(self, index: int, reason: str) -> EngineDied:
        if index in self._starting:
            return EngineDied(index, reason, DeathKind.START)
        if (killed := self._kill_reasons.pop(index, None)) is not None:
            return EngineDied(index, killed, DeathKind.STALLED)
        launched, kind = self._launched[index], DeathKind.EXITED
        if launched.has_crashed:
            kind = DeathKind.CRASHED
        elif launched.is_out_of_memory:
            kind = DeathKind.MEMORY
        return EngineDied(index, reason, kind)

    def _key_of(self, peer: Party) -> bytes | None:
        launched = self._launched.get(peer.index)
        if launched is None or peer.role is not Role.ENGINE:
            return None
        return launched.key

    def _mark_dead(self, death: EngineDied) -> EngineDied:
        if self._ended is not None and self._ended.engine_index == death.engine_index:
            self._ended = None
        self._starting.discard(death.engine_index)
        self._drain_grace.pop(death.engine_index, None)
        self._deaths[death.engine_index] = death.reason
        return death


def connect(config: EngineConfig) -> ProcessClient:
    """Starts an engine process for each engine of a configuration, and waits for them.

    Raises:
        ConfigError: An option does not fit.
        ModelLoadError: The model cannot be loaded or served.
        EngineDeadError: A process ended before it was ready.
    """
    return ProcessClient(*[config.of_engine(each) for each in config.engine_indices])
