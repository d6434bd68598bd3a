"""Request ids that are unique across all clients of an engine.

An id is one integer: the client's index in the upper bits, a counter in the lower 48.
"""

from hookline.exceptions import ConfigError

COUNTER_BITS = 48
MAX_CLIENTS = 1 << 15
"""Ids stay positive in a signed 64-bit integer."""


def first_id(client_index: int) -> int:
    """Returns the first id of a client's requests; the others follow.

    Raises:
        ConfigError: The index is negative, or not below `MAX_CLIENTS`.
    """
    if not 0 <= client_index < MAX_CLIENTS:
        raise ConfigError("client-index", f"must be 0 to {MAX_CLIENTS - 1}")
    return (client_index << COUNTER_BITS) + 1


def client_of(request_id: int) -> int:
    """Returns the index of the client that a request belongs to."""
    return request_id >> COUNTER_BITS
