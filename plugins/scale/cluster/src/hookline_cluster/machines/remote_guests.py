"""Other clients of engines on other machines, as the head node sees them."""

import msgspec

from hookline.transport.engine_client import EngineInfo
from hookline.transport.mailbox import Mailbox
from hookline.transport.transport import Party, Role
from hookline_cluster.clients.guest_list import GuestList
from hookline_cluster.machines.guest_relay import GuestRelay
from hookline_cluster.machines.remote_seat import RemoteSeat


class RemoteGuests(GuestList):
    """Guests whose frames go through this process; for any thread."""

    def __init__(self, relay: GuestRelay) -> None:
        """Takes over the relay."""
        owner = Party(Role.CLIENT, 0)
        self._relay = relay
        self._news: Mailbox[object] = Mailbox(
            relay.transport, owner, msgspec.msgpack.Decoder(), self.key_of
        )
        super().__init__(
            relay.folder,
            owner,
            relay.transport,
            self._send_news,
            most_waiting=relay.most_waiting,
        )

    @property
    def overrun_guests(self) -> frozenset[int]:
        """Guests that get no more outputs, because they did not take them."""
        return self._relay.overrun

    def seated(self, seat: RemoteSeat, info: EngineInfo) -> None:
        """Offers a process that is ready."""
        self._relay.seat(seat.party, seat.key)
        address, host = self._relay.address, seat.link.host
        self.started(seat.index, info, seat.key, address=address, host=host)

    def unseated(self, seat: RemoteSeat) -> None:
        """Passes nothing more on to a process that has ended."""
        self._relay.unseat(seat.party)

    def forget(self, client_index: int) -> None:
        super().forget(client_index)
        self._relay.forget(client_index)

    def close(self) -> None:
        """Closes the sockets."""
        self._relay.close()

    def _send_news(self, guest: Party, news: msgspec.Struct) -> None:
        self._news.send(guest, news, waits=False)
