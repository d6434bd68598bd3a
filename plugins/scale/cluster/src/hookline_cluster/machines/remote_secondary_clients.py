"""Other clients of engines on other machines, as the head node sees them."""

import msgspec

from hookline.transport.engine_client import EngineInfo
from hookline_cluster.clients.secondary_clients import SecondaryClients
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.remote_engine import RemoteEngine
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.transport import Party, Role


class RemoteSecondaryClients(SecondaryClients):
    """Secondary clients whose frames go through this process; for any thread."""

    def __init__(self, relay: ClientRelay) -> None:
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
    def overrun_clients(self) -> frozenset[int]:
        """Clients that get no more outputs, because they did not take them."""
        return self._relay.overrun

    def offer(self, engine: RemoteEngine, info: EngineInfo) -> None:
        """Offers an engine whose process is ready."""
        self._relay.add_engine(engine.party, engine.key)
        address, host = self._relay.address, engine.link.host
        self.started(engine.index, info, engine.key, address=address, host=host)

    def withdraw(self, engine: RemoteEngine) -> None:
        """Passes nothing more on to a process that has ended."""
        self._relay.remove_engine(engine.party)

    def forget(self, client_index: int) -> None:
        super().forget(client_index)
        self._relay.forget(client_index)

    def close(self) -> None:
        """Closes the sockets."""
        self._relay.close()

    def _send_news(self, client: Party, news: msgspec.Struct) -> None:
        self._news.post(client, news, waits=False)
