"""Sleep levels of an engine."""

from enum import IntEnum


class SleepLevel(IntEnum):
    """Memory that an executor releases while it sleeps.

    `KV_CACHE` releases the KV cache; `WEIGHTS` also the model's weights, which are
    reloaded on wake-up.
    """

    KV_CACHE = 1
    WEIGHTS = 2
