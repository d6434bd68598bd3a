"""The owner's side of its secondary clients: invitations, and news of the engines."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from hookline.transport.engine_client import (
    EngineDied,
    EngineInfo,
    SecondaryClientEnded,
)
from hookline_cluster.clients.departures import Departures
from hookline_cluster.clients.messages import (
    AttachDetails,
    ClientDrained,
    DrainEngine,
    EngineAddress,
    EngineDown,
    EngineRemoved,
    EngineStalled,
    ForceDetached,
    Leaves,
    OfSecondaryClients,
    SlowCall,
)
from hookline_cluster.news import (
    EngineVerdict,
    SecondaryClientCall,
    SecondaryClientLeft,
)
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import make_key
from hookline_process_engine.transport import Party, Role

_MOST_NEWS = 1000
"""Maximum number of news that wait for a client; further ones are lost to it."""

SendNews = Callable[[Party, msgspec.Struct], None]


class SecondaryClients:
    """Processes that may attach to the engines of an owner; for any thread.

    Attributes:
        overrun: Those that an engine has detached, because they were too slow.
    """

    def __init__(
        self,
        folder: Path,
        owner: Party,
        transport: IpcTransport,
        send: SendNews,
        *,
        most_waiting: int = _MOST_NEWS,
    ) -> None:
        self.overrun: set[int] = set()
        self._most_waiting = most_waiting
        self._folder = folder
        self._owner = owner
        self._transport = transport
        self._send = send
        self._lock = threading.Lock()
        self._keys: dict[int, bytes] = {}
        self._addresses: dict[int, EngineAddress] = {}
        self._departures = Departures()

    def key_of(self, client: Party) -> bytes | None:
        """Returns the key of messages to a secondary client; None for a stranger."""
        return self._keys.get(client.index)

    def started(
        self,
        engine_index: int,
        info: EngineInfo,
        key: bytes,
        *,
        address: str | None = None,
        host: str = "",
    ) -> None:
        """Offers an engine's process, the first one or a new one.

        Args:
            engine_index: The engine's index.
            info: What the process has reported.
            key: The secret of its messages.
            address: Address of its inbox; None if that is in the usual folder.
            host: Its machine, if that is another one.
        """
        usual = ipc_address(self._folder, Party(Role.ENGINE, engine_index))
        offered = EngineAddress(
            engine_index, key, address or usual, info.facts, info.clock, host=host
        )
        with self._lock:
            self._addresses[engine_index] = offered
            self._departures.process_ended(engine_index)
            self._tell(offered)
            if self._departures.has_begun(engine_index):
                self._ask_to_leave(engine_index)

    def ended(
        self, death: EngineDied, *, is_replaced: bool, returns: bool = False
    ) -> None:
        """Tells the secondary clients that an engine has ended, and what comes of it.

        Args:
            death: Its end.
            is_replaced: Whether a new process is to take its place.
            returns: Whether another machine starts that, whenever it may be.
        """
        index = death.engine_index
        down = EngineDown(index, death.reason, death.kind.value, is_replaced, returns)
        with self._lock:
            self._addresses[index] = msgspec.structs.replace(
                self._addresses[index], down=down
            )
            self._departures.process_ended(index)
            self._tell(down)

    def drain_engine(self, engine_index: int) -> None:
        """Asks the secondary clients to leave an engine."""
        with self._lock:
            self._ask_to_leave(engine_index)

    def keep(self, engine_index: int) -> None:
        """Offers an engine again that the clients were to leave, or have left."""
        with self._lock:
            if self._departures.cancel(engine_index):
                self._tell(self._addresses[engine_index])

    def client_left(self, engine_index: int, client: int, number: int | None) -> None:
        """Takes note that a client has left an engine; by force if that is None.

        `number` is that of the wish which it fulfils.
        """
        with self._lock:
            self._departures.left(engine_index, client, number)

    def is_drained(self, engine_index: int) -> bool:
        """Whether no client has anything open at an engine that all are to leave."""
        with self._lock:
            return self._departures.are_complete(engine_index)

    def left(self, engine_index: int) -> None:
        """Offers an engine no longer."""
        with self._lock:
            self._departures.forget(engine_index)
            if self._addresses.pop(engine_index, None) is not None:
                self._tell(EngineRemoved(engine_index))

    def leaves(self, engine_index: int) -> None:
        """Tells the clients that an engine ends by itself once it has nothing to do."""
        with self._lock:
            self._tell(Leaves(engine_index))

    def judged(self, verdict: EngineVerdict) -> None:
        """Tells the secondary clients whether an engine works."""
        with self._lock:
            self._tell(EngineStalled(*verdict))

    def invite(self, client_index: int) -> AttachDetails:
        """Lets a process attach as this client; it hears of all that happens later."""
        invitation = AttachDetails(
            str(self._folder), client_index, self._owner.index, make_key(), []
        )
        return self.join_in(invitation)

    def join_in(self, invitation: AttachDetails) -> AttachDetails:
        """Adds the engines of this list to those that another one offers."""
        client = Party(Role.CLIENT, invitation.client_index)
        address = ipc_address(Path(invitation.folder), client)
        with self._lock:
            # The socket need not be there yet.
            self._transport.connect(client, address, max_waiting=self._most_waiting)
            self._keys[client.index] = invitation.key
            offered = [
                each
                for index, each in self._addresses.items()
                if not self._departures.has_begun(index)
            ]
        engines = [*invitation.engines, *offered]
        return msgspec.structs.replace(invitation, engines=engines)

    def forget(self, client_index: int) -> None:
        """Tells nothing more to a secondary client that has ended."""
        client = Party(Role.CLIENT, client_index)
        with self._lock:
            self._transport.disconnect(client)
            self._keys.pop(client_index, None)
            self.overrun.discard(client_index)
            up = [index for index, each in self._addresses.items() if each.down is None]
            self._departures.force_detached(client_index, up)

    def _ask_to_leave(self, engine_index: int) -> None:
        number = self._departures.expect(engine_index, self._keys)
        self._tell(DrainEngine(engine_index, number))

    def _tell(self, news: msgspec.Struct) -> None:
        for client_index in self._keys:
            self._send(Party(Role.CLIENT, client_index), news)


def news_of_secondary_client(
    engine_index: int, message: OfSecondaryClients
) -> SecondaryClientEnded | SecondaryClientLeft | SecondaryClientCall:
    """Returns what an engine tells its owner of other clients."""
    match message:
        case ForceDetached(client, recent):
            return SecondaryClientEnded(engine_index, client, recent)
        case ClientDrained(client, number):
            return SecondaryClientLeft(engine_index, client, number)
        case SlowCall(is_open):
            return SecondaryClientCall(engine_index, is_open)
