"""Ends of loads by a KV connector."""

import msgspec


class KVLoad(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A load of a KV connector that ended, successfully or not.

    Attributes:
        nanoseconds: Time since its start; for a synchronous load, the step's delay.
        tokens: Number of tokens whose KV was loaded.
    """

    nanoseconds: int
    tokens: int = 0
