"""What the plugins that observe for a front end are made from."""

from dataclasses import dataclass
from pathlib import Path

from hookline.config.engine import EngineConfig


@dataclass(frozen=True, slots=True)
class ObserverAddress:
    """How to reach an observer process.

    Attributes:
        folder: Folder of its sockets, which only this user may enter.
        key: Secret of the messages from and to it.
        index: Number of the front end among those that it serves, from 0.
    """

    folder: Path
    key: bytes
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverContext:
    """What the plugin of the observer process needs to connect a front end to one.

    Attributes:
        config: The engine's configuration, with the loggers.
        pages: `module:attribute` of what serves the loggers' pages in that process, as
            the plugin describes it; empty if nobody serves them.
        address: A process that another front end owns; None to start one.
    """

    config: EngineConfig
    pages: str = ""
    address: ObserverAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderContext:
    """What a recorder of metrics is made from.

    Attributes:
        config: The engine's configuration, with the choice of metrics.
    """

    config: EngineConfig
