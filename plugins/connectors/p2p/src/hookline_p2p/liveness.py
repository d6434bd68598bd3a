"""Whether the engines that something is awaited of are still there."""

from collections.abc import Mapping

from hookline_p2p.transport import Peer, Transport
from hookline_p2p.wire import Ping, encode

_PINGS = 4
"""To an engine that says nothing, before it is given up."""


class Liveness:
    """Asks those that are silent; one thread uses it."""

    def __init__(self, transport: Transport, timeout_seconds: float) -> None:
        self._transport = transport
        self._timeout = timeout_seconds
        self._heard_at: dict[Peer, float] = {}
        self._pinged_at: dict[Peer, float] = {}

    def heard(self, peer: Peer, now: float) -> None:
        """It has said something."""
        self._heard_at[peer] = now

    def look(self, since: Mapping[Peer, float], now: float) -> list[Peer]:
        """Those that have been silent for too long.

        Args:
            since: From when something has been awaited of each.
            now: The time.
        """
        gone = []
        for books in (self._heard_at, self._pinged_at):
            for peer in [each for each in books if each not in since]:
                del books[peer]
        for peer, began_at in since.items():
            silent_since = max(began_at, self._heard_at.get(peer, began_at))
            if now - silent_since > self._timeout:
                gone.append(peer)
                continue
            asked_at = max(silent_since, self._pinged_at.get(peer, silent_since))
            if now - asked_at > self._timeout / _PINGS:
                self._pinged_at[peer] = now
                self._transport.send(peer, encode(Ping()))
        return gone
