"""A bounded queue that serves its clients in turn."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Round-robin over clients, first in, first out for each of them.

    Attributes:
        length: Number of items that wait.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[T]] = OrderedDict()
        self.length = 0

    def push(self, client: str, item: T) -> None:
        """Adds an item behind the client's others."""
        self._clients.setdefault(client, deque()).append(item)
        self.length += 1

    def push_first(self, client: str, item: T) -> None:
        """Puts an item back in front of all others."""
        self._clients.setdefault(client, deque()).appendleft(item)
        self._clients.move_to_end(client, last=False)
        self.length += 1

    def pop(self) -> T:
        """Removes the first item of the client whose turn it is.

        Raises:
            KeyError: The queue is empty.
        """
        client, items = self._clients.popitem(last=False)
        item = items.popleft()
        if items:
            self._clients[client] = items
        self.length -= 1
        return item
