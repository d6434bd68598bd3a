"""The owner's side of its guests: invitations, and news of the engines."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from hookline.transport.engine_client import EngineDied, EngineInfo, EngineVerdict
from hookline.transport.ipc import IpcTransport, ipc_address
from hookline.transport.mailbox import make_key
from hookline.transport.messages import (
    EngineDown,
    EngineStalled,
    Invitation,
    Seat,
)
from hookline.transport.transport import Party, Role

_MOST_NEWS = 1000
"""Maximum number of news that wait for a guest; further ones are lost to it."""

SendNews = Callable[[Party, msgspec.Struct], None]


class GuestList:
    """Processes that may attach to the engines of an owner; for any thread.

    Attributes:
        overrun: Guests that an engine has detached, because they were too slow.
    """

    def __init__(
        self, folder: Path, owner: Party, transport: IpcTransport, send: SendNews
    ) -> None:
        self.overrun: set[int] = set()
        self._folder = folder
        self._owner = owner
        self._transport = transport
        self._send = send
        self._lock = threading.Lock()
        self._keys: dict[int, bytes] = {}
        self._seats: dict[int, Seat] = {}

    def key_of(self, guest: Party) -> bytes | None:
        """Returns the key of messages to a guest; None for a stranger."""
        return self._keys.get(guest.index)

    def started(self, engine_index: int, info: EngineInfo, key: bytes) -> None:
        """Offers an engine's process, the first one or a new one."""
        address = ipc_address(self._folder, Party(Role.ENGINE, engine_index))
        with self._lock:
            seat = Seat(engine_index, key, address, info.facts, info.clock)
            self._seats[engine_index] = seat
            self._tell(seat)

    def ended(self, death: EngineDied, *, is_replaced: bool) -> None:
        """Tells the guests that an engine has ended."""
        index = death.engine_index
        down = EngineDown(index, death.reason, death.kind.value, is_replaced)
        with self._lock:
            self._seats[index] = msgspec.structs.replace(self._seats[index], down=down)
            self._tell(down)

    def left(self, engine_index: int) -> None:
        """Offers an engine no longer; there are no guests while engines leave."""
        with self._lock:
            self._seats.pop(engine_index, None)

    def judged(self, verdict: EngineVerdict) -> None:
        """Tells the guests whether an engine works."""
        with self._lock:
            self._tell(EngineStalled(*verdict))

    def invite(self, client_index: int) -> Invitation:
        """Lets a process attach as this client; it hears of all that happens later."""
        guest, key = Party(Role.CLIENT, client_index), make_key()
        address = ipc_address(self._folder, guest)
        with self._lock:
            # The socket need not be there yet.
            self._transport.connect(guest, address, max_waiting=_MOST_NEWS)
            self._keys[client_index] = key
            return Invitation(
                str(self._folder),
                client_index,
                self._owner.index,
                key,
                list(self._seats.values()),
            )

    def forget(self, client_index: int) -> None:
        """Tells nothing more to a guest that has ended."""
        guest = Party(Role.CLIENT, client_index)
        with self._lock:
            self._transport.disconnect(guest)
            self._keys.pop(client_index, None)
            self.overrun.discard(client_index)

    def _tell(self, news: msgspec.Struct) -> None:
        for client_index in self._keys:
            self._send(Party(Role.CLIENT, client_index), news)
