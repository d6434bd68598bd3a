"""Client of engines on other machines, which connect to this one."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import TypeVar, assert_never, cast

import msgspec

from hookline.config import EngineConfig
from hookline.engine.commands import Command, Reply
from hookline.exceptions import EngineDeadError, SchemaVersionError
from hookline.model_description import find_folder
from hookline.transport.engine_client import DeathKind, EngineDied, EngineInfo, Received
from hookline_cluster.capabilities import (
    EngineLinks,
    RemoteEngines,
    SecondaryClientNews,
)
from hookline_cluster.clients.messages import (
    AttachDetails,
    ForceDetach,
    OfSecondaryClients,
)
from hookline_cluster.clients.secondary_clients import news_of_secondary_client
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.joining import NodeAdmission
from hookline_cluster.machines.link_messages import (
    JOINING_KEY,
    FromRemoteEngine,
    Goodbye,
    Join,
    Leaving,
    Left,
    Ping,
    Pong,
    Refused,
    ToHead,
    Welcome,
)
from hookline_cluster.machines.remote_engine import Presence, RemoteEngine
from hookline_cluster.machines.remote_secondary_clients import RemoteSecondaryClients
from hookline_cluster.machines.tcp import TcpHub
from hookline_cluster.news import EngineLeaving, EngineVerdict
from hookline_metrics.front_end_parts import LinkStats
from hookline_process_engine.capabilities import EngineProcesses, EngineReplaced
from hookline_process_engine.mailbox import Mail, Mailbox, make_key
from hookline_process_engine.messages import Failed, Output, Ready, StartFailed
from hookline_process_engine.transport import Party, Role
from hookline_server.engine_sharing import AttachInfo, SharedEngines

T = TypeVar("T")
_CAPABILITIES = frozenset(
    {EngineProcesses, EngineLinks, SecondaryClientNews, RemoteEngines, SharedEngines}
)
PING_SECONDS = 0.25
"""Interval of pings, by which a lost connection is noticed."""
_LOOK_SECONDS = 0.1
DRAIN_SECONDS = 0.1
"""Time to receive what an engine had sent before its connection was lost."""
_GRACE_SECONDS = 2.0
_REMINDER_SECONDS = 30.0
_CLOSED = "it was closed"
_log = logging.getLogger(__name__)


class RemoteClient:
    """An `EngineClient` of engines that other machines start and end.

    Whatever becomes of a process, another one may take its place at any time.

    Attributes:
        patience_seconds: Time for which `wait` waits beyond the join timeout.
    """

    owns_engines = True
    patience_seconds = 0.0

    def __init__(
        self, config: EngineConfig, hub: TcpHub, relay: ClientRelay | None = None
    ) -> None:
        """Takes over hub and relay; `wait` returns when the engines are there.

        Args:
            config: The head node's configuration.
            hub: Where the engines connect.
            relay: The hub's, if engines can have other clients.
        """
        self.index = 0
        self.engines: dict[int, EngineInfo] = {}
        self._config = config
        self._hub = hub
        remote = ClusterConfig.of(config).remote_indices
        self._remotes = {index: RemoteEngine(index) for index in remote}
        digest = digest_of_folder(find_folder(config.model.model))
        self._admission = NodeAdmission(config, self._remotes, digest)
        self._mailbox: Mailbox[ToHead] = Mailbox(
            hub,
            Party(Role.CLIENT, self.index),
            msgspec.msgpack.Decoder(ToHead),
            self._key_of,
        )
        self._secondary = None if relay is None else RemoteSecondaryClients(relay)
        self._losses: dict[int, tuple[float, EngineDied]] = {}
        self._pinged_at = 0.0
        self._last_refusal = ""
        self._is_waiting = True
        self._given_up: str | None = None
        self._is_closed = False

    def wait(self, others: threading.Event | None = None) -> None:
        """Waits until all engines are ready, and until `others` is set.

        Raises:
            EngineDeadError: Some are not there in time, or this client was closed.
        """
        machines = ClusterConfig.of(self._config).machines
        seconds = machines.join_timeout + self.patience_seconds
        deadline = time.monotonic() + seconds
        reminder = 0.0
        while (missing := self._missing) or not (others is None or others.is_set()):
            now = time.monotonic()
            names = ", ".join(map(str, missing))
            if self._given_up is not None:
                raise EngineDeadError(self._given_up)
            if missing and now > deadline:
                raise EngineDeadError(
                    f"of the engines of other machines, {names} did not join at "
                    f"{self._hub.address} within {seconds:g} s"
                )
            if missing and now > reminder:
                reminder = now + _REMINDER_SECONDS
                _log.warning(
                    "waiting at %s for the engines of other machines: %s",
                    self._hub.address,
                    names,
                )
            self.receive(_LOOK_SECONDS)
        self._is_waiting = False

    def capability(self, kind: type[T]) -> T | None:
        if kind is SharedEngines and self._secondary is None:
            return None
        return cast("T", self) if kind in _CAPABILITIES else None

    @property
    def hosts(self) -> Mapping[int, str]:
        return {each.index: each.link.host for each in list(self._remotes.values())}

    @property
    def links(self) -> LinkStats:
        links = tuple(each.link for each in list(self._remotes.values()))
        return LinkStats(engines=links, refused=self._hub.refused)

    def inspector(self, engine_index: int) -> None:
        """Returns None: the process is on another machine."""

    def returns(self, engine_index: int) -> bool:
        return engine_index in self._remotes

    def kill(self, engine_index: int, reason: str) -> None:
        death = EngineDied(engine_index, reason, DeathKind.STALLED)
        self._losses[engine_index] = (0.0, death)

    def replace(self, engine_index: int, after_seconds: float) -> None:
        """Does nothing: its machine starts a new process, which joins."""

    def tell_death(self, death: EngineDied, *, is_replaced: bool) -> None:
        if self._secondary is not None:
            returns = self.returns(death.engine_index)
            self._secondary.ended(death, is_replaced=is_replaced, returns=returns)

    def tell_verdict(self, verdict: EngineVerdict) -> None:
        if self._secondary is not None:
            self._secondary.judged(verdict)

    # -- secondary clients -------------------------------------------------------

    @property
    def overrun_clients(self) -> frozenset[int]:
        """Clients that get no more outputs, because they did not take them."""
        return (
            frozenset() if self._secondary is None else self._secondary.overrun_clients
        )

    def attach_info(self, client_index: int) -> AttachInfo:
        return self.invite(client_index).packed()

    def invite(self, client_index: int) -> AttachDetails:
        """Lets another process attach to the engines, as this client."""
        assert self._secondary is not None, "it has a relay"
        return self._secondary.invite(client_index)

    def join_in(self, invitation: AttachDetails) -> AttachDetails:
        """Adds these engines to those to which a process may attach."""
        assert self._secondary is not None, "it has a relay"
        return self._secondary.join_in(invitation)

    def force_detach(self, client_index: int) -> None:
        """Has the engines abort the requests of a secondary client that has ended."""
        if self._secondary is not None:
            self._secondary.forget(client_index)
        for engine in list(self._remotes.values()):
            if engine.presence is Presence.READY:
                self._mailbox.post(engine.party, ForceDetach(client_index))

    # -- messages ----------------------------------------------------------------

    @property
    def dropped(self) -> int:
        there = sum(each.dropped for each in list(self._remotes.values()))
        return self._mailbox.dropped + there

    def send(self, engine_index: int, command: Command) -> None:
        engine = self._remotes[engine_index]
        if self._is_closed or engine.presence is not Presence.READY:
            raise EngineDeadError(_CLOSED if self._is_closed else engine.absence)
        self._mailbox.post(engine.party, command)

    def receive(self, timeout_seconds: float) -> Received | None:
        deadline = time.monotonic() + timeout_seconds
        while not self._is_closed:
            self._ping()
            if (death := self._take_loss()) is not None:
                return death
            left = max(0.0, deadline - time.monotonic())
            mail = self._next_mail(min(left, _LOOK_SECONDS))
            if mail is not None and (received := self._received(mail)) is not None:
                return received
            if mail is None and left == 0:
                return None
        raise EngineDeadError(_CLOSED)

    def close(self) -> None:
        """Says goodbye to the engines, and waits a moment for them to end."""
        if self._is_closed:
            return
        for engine in self._present:
            self._mailbox.post(engine.party, Goodbye(returns=False))
        deadline = time.monotonic() + _GRACE_SECONDS
        while self._present and time.monotonic() < deadline:
            self.receive(_LOOK_SECONDS)
        self._is_closed = True
        self._hub.close(linger_seconds=_LOOK_SECONDS)
        if self._secondary is not None:
            self._secondary.close()

    def stop_waiting(self) -> None:
        """Has `wait`, in another thread, raise soon."""
        self._given_up = _CLOSED

    @property
    def _missing(self) -> list[int]:
        return [each for each in self._remotes if each not in self.engines]

    @property
    def _present(self) -> list[RemoteEngine]:
        engines = self._remotes.values()
        return [each for each in engines if each.presence is not Presence.ABSENT]

    def _next_mail(self, timeout_seconds: float) -> Mail[ToHead] | None:
        try:
            return self._mailbox.receive(timeout_seconds)
        except SchemaVersionError as error:
            self._refuse(Party(Role.JOINER, 0), Refused(str(error), is_final=True))
            return None

    def _received(self, mail: Mail[ToHead]) -> Received | None:
        message = mail.message
        if isinstance(message, Join):
            if mail.sender.role is Role.JOINER:
                self._take_join(mail.sender, message)
            return None
        engine = self._remotes.get(mail.sender.index)
        if engine is None or engine.presence is Presence.ABSENT:
            return None  # the last messages of a process that is the engine no longer
        if isinstance(message, OfSecondaryClients):
            return news_of_secondary_client(engine.index, message)
        return self._taken(engine, message)

    def _taken(
        self,
        engine: RemoteEngine,
        message: FromRemoteEngine,
    ) -> Received | None:
        match message:
            case Output(output, dropped):
                engine.dropped = dropped
                return output
            case Reply():
                return message
            case Pong(at, processes):
                engine.answered((time.monotonic_ns() - at) / 1e9, processes)
                return None
            case Ready(facts, clock):
                return self._take_ready(engine, EngineInfo(facts, clock))
            case Leaving():
                return self._take_leaving(engine)
            case Left():
                reason, kind = "it was stopped on its machine", DeathKind.EXITED
            case Failed(text):
                reason, kind = text, DeathKind.FAILED
            case StartFailed(subject=subject, detail=detail):
                reason, kind = f"{subject}: {detail}", DeathKind.START
            case _:
                assert_never(message)
        return self._mark_dead(EngineDied(engine.index, reason, kind))

    def _take_leaving(self, engine: RemoteEngine) -> EngineLeaving:
        if self._secondary is not None:
            self._secondary.leaves(engine.index)
        return EngineLeaving(engine.index)

    def _take_join(self, joiner: Party, join: Join) -> None:
        refusal = self._admission.refusal(joiner.index, join)
        if refusal is not None:
            self._refuse(joiner, refusal, f" of {join.host}")
            return
        engine = self._remotes[joiner.index]
        engine.assign(join, make_key())
        self._last_refusal = ""
        _log.info("engine %d joins from %s", engine.index, join.host)
        self._answer(joiner, Welcome(self._config_of(engine.index), engine.key))
        self._hub.connect(engine.party, self._hub.origin, max_waiting=0)

    def _config_of(self, engine_index: int) -> EngineConfig:
        """Returns the configuration that an engine gets from the head node."""
        return self._config.of_engine(engine_index)

    def _take_ready(self, engine: RemoteEngine, info: EngineInfo) -> Received | None:
        is_new = engine.index not in self.engines
        self.engines[engine.index] = info
        engine.ready()
        if self._secondary is not None:
            self._secondary.offer(engine, info)
        _log.info("engine %d is ready on %s", engine.index, engine.link.host)
        return None if is_new else EngineReplaced(engine.index, info)

    def _refuse(self, joiner: Party, refusal: Refused, whose: str = "") -> None:
        line = f"refused a process{whose} as engine {joiner.index}: {refusal.reason}"
        if line != self._last_refusal:  # those that are not final ask every second
            self._last_refusal = line
            _log.warning("%s", line)
        self._answer(joiner, refusal)

    def _answer(self, joiner: Party, message: msgspec.Struct) -> None:
        self._hub.connect(joiner, self._hub.origin, max_waiting=0)
        self._mailbox.post(joiner, message)
        self._hub.disconnect(joiner)

    def _ping(self) -> None:
        now = time.monotonic()
        if now - self._pinged_at < PING_SECONDS:
            return
        self._pinged_at = now
        for engine in self._present:
            self._mailbox.post(engine.party, Ping(time.monotonic_ns()))
            if (reason := self._hub.lost(engine.party)) is not None:
                death = EngineDied(engine.index, reason, DeathKind.LOST)
                self._losses.setdefault(engine.index, (now + DRAIN_SECONDS, death))

    def _take_loss(self) -> EngineDied | None:
        now = time.monotonic()
        due = [death for at, death in self._losses.values() if at <= now]
        return self._mark_dead(due[0]) if due else None

    def _mark_dead(self, death: EngineDied) -> EngineDied | None:
        engine = self._remotes[death.engine_index]
        self._losses.pop(engine.index, None)
        was_ready = engine.presence is Presence.READY
        if engine.presence is Presence.ABSENT:
            return None
        self._dismiss(engine, returns=True)
        engine.leave(death.reason, is_lost=death.kind is DeathKind.LOST)
        if self._is_waiting:
            self.engines.pop(engine.index, None)
            _log.error("engine %d has ended: %s", engine.index, engine.absence)
            return None
        return death._replace(reason=engine.absence) if was_ready else None

    def _dismiss(self, engine: RemoteEngine, *, returns: bool) -> None:
        self._mailbox.post(engine.party, Goodbye(returns=returns))
        self._hub.disconnect(engine.party)
        if self._secondary is not None:
            self._secondary.withdraw(engine)

    def _key_of(self, peer: Party) -> bytes | None:
        if peer.role is Role.JOINER:
            return JOINING_KEY
        engine = self._remotes.get(peer.index)
        return None if engine is None or peer.role is not Role.ENGINE else engine.key
