"""Request ids that are unique across all clients of an engine.

An id is one integer: the client's index in the upper bits, a counter in the lower 48.
"""

from hookline.exceptions import ConfigError

COUNTER_BITS = 48
MAX_CLIENTS = 1 << 15
"""Ids stay positive in a signed 64-bit integer."""


class RequestIds:
    """Hands out the ids of one client's requests, from 1 upwards."""

    def __init__(self, client_index: int = 0) -> None:
        if not 0 <= client_index < MAX_CLIENTS:
            raise ConfigError("client-index", f"must be 0 to {MAX_CLIENTS - 1}")
        self._last = client_index << COUNTER_BITS

    def next(self) -> int:
        """Returns an id that no other request of any client has."""
        self._last += 1
        return self._last


def client_of(request_id: int) -> int:
    """Returns the index of the client that a request belongs to."""
    return request_id >> COUNTER_BITS
