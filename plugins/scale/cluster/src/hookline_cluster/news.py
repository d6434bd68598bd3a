"""What clients of several engines receive beyond outputs, replies and deaths."""

from typing import NamedTuple

from hookline.transport.engine_client import EngineInfo, SecondaryClientEnded


class EngineVerdict(NamedTuple):
    """What an engine's owner thinks of it, for its secondary clients.

    Attributes:
        engine_index: Its index.
        reason: What it does not do, in one clause; None if it works.
        seconds: How long it has not done it.
        is_final: Whether its requests are given up.
    """

    engine_index: int
    reason: str | None
    seconds: float
    is_final: bool


class SecondaryClientCall(NamedTuple):
    """Another client's call that may take long begins or ends; for the owner.

    Attributes:
        engine_index: The engine that it calls.
        is_open: Whether it begins.
    """

    engine_index: int
    is_open: bool


class EngineLeaving(NamedTuple):
    """An engine finishes its requests and then ends; it should get no more."""

    engine_index: int


class EngineJoined(NamedTuple):
    """An engine that was added is ready; it has no requests."""

    engine_index: int
    info: EngineInfo


class EngineNotJoined(NamedTuple):
    """An engine that was added cannot be started, and was forgotten.

    Attributes:
        engine_index: Its index.
        reason: Why, in one clause.
    """

    engine_index: int
    reason: str


class EngineLeft(NamedTuple):
    """An engine that was removed has ended; nothing more comes from it."""

    engine_index: int


class EngineDraining(NamedTuple):
    """The engine's owner wants this client to leave it, once it has nothing open there.

    Attributes:
        engine_index: Its index.
        number: Number of the wish, for `EngineAttachments.leave`.
    """

    engine_index: int
    number: int


class EngineAvailable(NamedTuple):
    """The engine's owner wants this client to stay there, or to come back."""

    engine_index: int


class SecondaryClientLeft(NamedTuple):
    """Another client has left an engine, as its owner wants; for the owner.

    Attributes:
        engine_index: The engine.
        client: Index of the client.
        number: Number of the owner's wish.
    """

    engine_index: int
    client: int
    number: int


EngineNumberNews = (
    EngineJoined
    | EngineNotJoined
    | EngineLeft
    | EngineDraining
    | EngineAvailable
    | SecondaryClientEnded
    | SecondaryClientLeft
)
"""Which engines come and go, and who leaves them."""
