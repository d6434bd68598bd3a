"""A bounded queue that serves its clients in turn."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

Client = tuple[str, str]
"""Who pays, which no client chooses, and for whom, which may be only claimed."""

NOBODY: Client = ("", "")
"""Work that the process does for itself, and that of tests."""


class FairQueue(Generic[T]):
    """Round-robin over payers, then over the clients of each, then first in, first out.

    So a payer gets one turn of all, however many clients it claims to be.

    Attributes:
        length: Number of items that wait.
    """

    def __init__(self) -> None:
        self._payers: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self.length = 0

    def push(self, client: Client, item: T) -> None:
        """Adds an item behind the client's others."""
        self._items(client).append(item)
        self.length += 1

    def push_first(self, client: Client, item: T) -> None:
        """Puts an item back in front of all others."""
        payer, name = client
        self._items(client).appendleft(item)
        self._payers[payer].move_to_end(name, last=False)
        self._payers.move_to_end(payer, last=False)
        self.length += 1

    def pop(self) -> T:
        """Removes the first item of the client whose turn it is.

        Raises:
            KeyError: The queue is empty.
        """
        payer, clients = self._payers.popitem(last=False)
        name, items = clients.popitem(last=False)
        item = items.popleft()
        if items:
            clients[name] = items
        if clients:
            self._payers[payer] = clients
        self.length -= 1
        return item

    def _items(self, client: Client) -> deque[T]:
        payer, name = client
        clients = self._payers.setdefault(payer, OrderedDict())
        return clients.setdefault(name, deque())
