"""Finds out whether engines that owe an answer are still alive."""

from collections.abc import Mapping

from hookline_p2p.transport import Peer, Transport
from hookline_p2p.wire import Ping, encode

_PINGS = 4
"""Pings to a silent engine within the timeout."""


class Liveness:
    """Pings silent peers; for one thread."""

    def __init__(self, transport: Transport, timeout_seconds: float) -> None:
        self._transport = transport
        self._timeout = timeout_seconds
        self._active_at: dict[Peer, float] = {}
        self._pinged_at: dict[Peer, float] = {}

    def on_activity(self, peer: Peer, now: float) -> None:
        """Notes that a peer has sent a message."""
        self._active_at[peer] = now

    def look(self, since: Mapping[Peer, float], now: float) -> list[Peer]:
        """Returns the peers that have been silent for longer than the timeout.

        Args:
            since: For each peer that owes an answer, since when, in seconds.
            now: The time, in seconds.
        """
        gone = []
        for books in (self._active_at, self._pinged_at):
            for peer in [each for each in books if each not in since]:
                del books[peer]
        for peer, began_at in since.items():
            silent_since = max(began_at, self._active_at.get(peer, began_at))
            if now - silent_since > self._timeout:
                gone.append(peer)
                continue
            asked_at = max(silent_since, self._pinged_at.get(peer, silent_since))
            if now - asked_at > self._timeout / _PINGS:
                self._pinged_at[peer] = now
                self._transport.send(peer, encode(Ping()))
        return gone
