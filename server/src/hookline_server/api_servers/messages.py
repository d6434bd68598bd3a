"""The messages between the parent and its API servers."""

import msgspec

from hookline.config import EngineConfig
from hookline.frozen import plain
from hookline_server.api_servers.questions import (
    Answer,
    Ask,
    Charge,
    EndDraw,
    Keep,
)
from hookline_server.engine_sharing import AttachInfo
from hookline_server.settings import ServerSettings

ENCODER = msgspec.msgpack.Encoder(enc_hook=plain)
"""Encodes all of them."""


class ObserverEndpoint(msgspec.Struct, frozen=True):
    """How an API server reaches the observer process.

    Attributes:
        folder: Folder of its sockets.
        key: Secret of the messages from and to it.
    """

    folder: str
    key: bytes


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """Everything that an API server needs; its parent's first message.

    Attributes:
        place: The server's place in the table of shares, from 0.
        places: Number of places.
        config: The engines' configuration.
        settings: The server's settings.
        invitation: How it attaches to the engines.
        observer: The loggers; None if there are none.
        api: Descriptors of the API's listening sockets.
        pages: Descriptors of those of the loggers' pages; empty if they have none.
        shares: Descriptor of the table of shares.
        began: When the command began, on the machine's monotonic clock in seconds.
    """

    place: int
    places: int
    config: EngineConfig
    settings: ServerSettings
    invitation: AttachInfo
    observer: ObserverEndpoint | None
    api: tuple[int, ...]
    pages: tuple[int, ...]
    shares: int
    began: float


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """The API server has attached, and can accept connections."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The API server accepts connections from now on."""


class Serving(msgspec.Struct, frozen=True, tag=True):
    """The API server accepts connections.

    Attributes:
        banner: What to show to the user.
    """

    banner: str


ToChild = Welcome | Begin | Answer
ToParent = Prepared | Serving | Ask | Keep | Charge | EndDraw
