"""How deeply an engine sleeps."""

from enum import IntEnum


class SleepLevel(IntEnum):
    """What an executor gives back to the system while it sleeps.

    `KV_CACHE` is the memory of the KV cache; `WEIGHTS` is that and the model's weights,
    which are loaded again on waking.
    """

    KV_CACHE = 1
    WEIGHTS = 2
