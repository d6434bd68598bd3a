"""An engine's side of the link to the head node on another machine."""

import logging
import os
import socket
import time
from collections.abc import Callable

import msgspec

from hookline import __version__
from hookline.config import EngineConfig
from hookline.engine.commands import Command, EngineMessage
from hookline.exceptions import ConfigError, EngineDeadError
from hookline_cluster.clients.served_clients import FromClient, ServedClients
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.link_keys import SECRET_OPTION, LinkKeys
from hookline_cluster.machines.link_messages import (
    JOINING_KEY,
    Goodbye,
    Join,
    Leaving,
    Left,
    Ping,
    Pong,
    Refused,
    ToRemoteEngine,
    Welcome,
)
from hookline_cluster.machines.local_options import localized, shared_options
from hookline_cluster.machines.tcp import TcpLink
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.messages import Failed, Ready, StartFailed
from hookline_process_engine.transport import Party, Role
from hookline_processes.usage import ProcessTree, RoleUsage

MOST_FRAMES = 1000
"""Maximum number of frames queued for the head node; the engine waits beyond it."""
_ASK_SECONDS = 1.0
_LINGER_SECONDS = 1.0
_PROCESSES_SECONDS = 1.0
"""Time between two readings of what this engine's processes take."""
_SILENCE_SECONDS = 30.0
"""Time without a ping after which the head node has given this engine up."""
_MOST_FAILURES = 10
"""Handshakes after which it is no chance that they fail."""
_HEAD = Party(Role.CLIENT, 0)
_log = logging.getLogger(__name__)


class RemoteWire:
    """Commands in, outputs and replies out; for one thread.

    Attributes:
        is_dismissed: Whether the head node has said goodbye.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: LinkKeys,
        engine_index: int,
        on_lost: Callable[[], None],
    ) -> None:
        """Begins to connect; `on_lost` is called in a thread when the link is lost."""
        self.is_dismissed = False
        self._index = engine_index
        self._on_lost = on_lost
        self._heard_at = time.monotonic()
        self._last_refusal = ""
        self._processes = ProcessTree(os.getpid(), f"engine-{engine_index}")
        self._reads_processes_at = 0.0
        self._endpoint = endpoint
        self._link = TcpLink(endpoint, keys, max_waiting=MOST_FRAMES, on_lost=on_lost)
        self._mailbox = self._make_mailbox(Role.JOINER, JOINING_KEY)
        self._clients = self._serve_clients()

    def join(self, config: EngineConfig, model_digest: str) -> EngineConfig:
        """Asks the head node until it welcomes this process as the engine.

        Args:
            config: This machine's configuration.
            model_digest: Digest of its model's folder.

        Returns:
            The head node's configuration with this machine's local options.

        Raises:
            ConfigError: The head node refuses this process, or has another secret.
            EngineDeadError: The head node is not there in time.
            SchemaVersionError: The head node has another version.
        """
        seconds = ClusterConfig.of(config).machines.join_timeout
        given = shared_options(config)
        host, own = socket.gethostname(), __version__
        request = Join(host, os.getpid(), own, model_digest, given)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._mailbox.post(_HEAD, request, waits=False)
            answer = self._answer(time.monotonic() + _ASK_SECONDS)
            if answer is not None:
                self._mailbox = self._make_mailbox(Role.ENGINE, answer.key)
                self._mailbox.is_shaking_hands = False
                self._clients = self._serve_clients()
                if ClusterConfig.of(answer.config).autoscale is not None:
                    self._clients.count_others()
                return localized(answer.config, config)
            self._check_handshakes()
        raise EngineDeadError(
            f"the head node at {self._endpoint} did not accept engine {self._index} "
            f"within {seconds:g} s"
        )

    def receive(self, timeout_seconds: float) -> Command | None:
        """Waits for a command; None if none came in time."""
        if self._clients.has_commands:
            return self._clients.next_command()
        mail = self._mailbox.receive(timeout_seconds)
        now = time.monotonic()
        if mail is None:
            # What came during a long step has been received by now.
            if now - self._heard_at > _SILENCE_SECONDS:
                self._on_lost()
            return None
        self._heard_at = now
        message = mail.message
        if isinstance(message, Ping):
            self._mailbox.post(_HEAD, Pong(message.at, self._usage(now)))
        elif isinstance(message, Goodbye) and message.returns:
            self._on_lost()
        elif isinstance(message, Goodbye):
            self._link.expect_end()
            self.is_dismissed = True
        elif isinstance(message, FromClient):
            return self._clients.on_message(mail.sender, message)
        return None

    def _usage(self, now: float) -> tuple[RoleUsage, ...] | None:
        if now < self._reads_processes_at:
            return None
        self._reads_processes_at = now + _PROCESSES_SECONDS
        return self._processes.read()

    def ready(self, ready: Ready) -> None:
        """Announces the engine; from now on it must hear of the head node."""
        self._heard_at = time.monotonic()
        self._clients.ready(ready)

    def start_failed(self, kind: str, subject: str, detail: str) -> None:
        self._mailbox.post(_HEAD, StartFailed(kind, subject, detail))

    def failed(self, reason: str) -> None:
        # The head node tells the other clients.
        self._mailbox.post(_HEAD, Failed(reason))

    def leaving(self) -> None:
        """Asks for no more requests."""
        self._mailbox.post(_HEAD, Leaving())

    def left(self) -> None:
        """Tells the head node that this engine ends as it was asked to."""
        self._link.expect_end()
        self._mailbox.post(_HEAD, Left())

    def send(self, message: EngineMessage) -> None:
        """Sends an output or a reply; waits while too many are on their way."""
        self._clients.route(message)

    def close(self) -> None:
        """Sends the remaining messages, for a second at most."""
        self._link.close(_LINGER_SECONDS)

    def _answer(self, deadline: float) -> Welcome | None:
        """Waits for the head node's answer; None if it is to be asked again."""
        while (left := deadline - time.monotonic()) > 0:
            if (mail := self._mailbox.receive(left)) is None:
                continue
            message = mail.message
            if isinstance(message, Welcome):
                return message
            if isinstance(message, Refused) and message.is_final:
                raise ConfigError("data-parallel-address", self._refusal(message))
            if isinstance(message, Refused):
                self._log_refusal(message.reason)
                time.sleep(max(0.0, deadline - time.monotonic()))
                return None
        return None

    def _log_refusal(self, reason: str) -> None:
        if reason != self._last_refusal:
            self._last_refusal = reason
            _log.warning(
                "the head node at %s does not accept engine %d yet: %s",
                self._endpoint,
                self._index,
                reason,
            )

    def _refusal(self, message: Refused) -> str:
        return (
            f"the head node at {self._endpoint} does not accept engine {self._index}: "
            f"{message.reason}"
        )

    def _check_handshakes(self) -> None:
        if self._link.failures >= _MOST_FAILURES:
            raise ConfigError(
                SECRET_OPTION,
                f"the handshake with {self._endpoint} fails: the secret must be the "
                "head node's. Name the same file on both sides, or run both as the "
                "same user of one machine",
            )

    def _serve_clients(self) -> ServedClients:
        mailbox = self._mailbox
        return ServedClients(_HEAD, self._link, mailbox.post, lambda: mailbox.dropped)

    def _make_mailbox(self, role: Role, key: bytes) -> Mailbox[ToRemoteEngine]:
        decoder = msgspec.msgpack.Decoder(ToRemoteEngine)
        party = Party(role, self._index)
        return Mailbox(self._link, party, decoder, lambda _: key)
