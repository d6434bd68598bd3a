"""How changes of the prefix cache are published: what `--kv-events-config` says.

Keys and defaults are those of vLLM, so that what is written for it is understood.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Self

from hookline.exceptions import ConfigError
from hookline.json_options import read_object

OPTION = "kv-events-config"


class KVEventsPublisher(StrEnum):
    """Who publishes: the logger `kv_events`, or nobody but loggers that listen."""

    ZMQ = "zmq"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVEventsConfig:
    """What is published, and where.

    Attributes:
        enable_kv_cache_events: Whether changes are followed at all.
        publisher: `zmq` publishes them; `null` only tells loggers' `cache_changed`.
        endpoint: Of the PUB socket: bound if it has `*` or `::` or is no TCP address,
            else connected to. The engine's index is added to a TCP port.
        replay_endpoint: Of the ROUTER socket, always bound; None answers nobody.
        buffer_steps: Batches that are kept to be told again.
        hwm: Batches that wait for a slow subscriber, at most; further ones it misses.
        max_queue_size: Batches that wait to be published, at most.
        topic: First frame of every message.
    """

    enable_kv_cache_events: bool = False
    publisher: KVEventsPublisher = KVEventsPublisher.ZMQ
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.enable_kv_cache_events, bool):
            raise ConfigError(OPTION, "enable_kv_cache_events must be true or false")
        if self.publisher not in list(KVEventsPublisher):
            raise ConfigError(
                OPTION,
                f"publisher must be one of {', '.join(KVEventsPublisher)}, not "
                f"{self.publisher!r}",
            )
        for name in ("buffer_steps", "hwm", "max_queue_size"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(
                    OPTION, f"{name} must be a whole number above 0, not {value!r}"
                )
        for name in ("endpoint", "replay_endpoint"):
            _check_endpoint(name, getattr(self, name))
        if not isinstance(self.topic, str):
            raise ConfigError(OPTION, f"topic must be text, not {self.topic!r}")

    @property
    def logger(self) -> str:
        """The stat logger that publishes; empty if none does."""
        is_published = self.publisher == KVEventsPublisher.ZMQ
        return "kv_events" if self.enable_kv_cache_events and is_published else ""

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: A key is unknown, or a value is wrong.
        """
        known = [each.name for each in fields(cls)]
        for key in given:
            if key not in known:
                raise ConfigError(
                    OPTION, f"there is no {key!r}; there are {', '.join(known)}"
                )
        return cls(**given)  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The same of a JSON object.

        Raises:
            ConfigError: It is none, or a key or value is wrong.
        """
        return cls.from_mapping(read_object(OPTION, text))


def _check_endpoint(name: str, value: object) -> None:
    if value is None and name == "replay_endpoint":
        return
    schemes = ("tcp://", "ipc://", "inproc://")
    if not isinstance(value, str) or not value.startswith(schemes):
        raise ConfigError(
            OPTION, f"{name} must begin with {', '.join(schemes)}, not be {value!r}"
        )
    port = value.rpartition(":")[2]
    if value.startswith("tcp://") and not (port.isdecimal() or port == "*"):
        raise ConfigError(OPTION, f"{name} must end with a port, not be {value!r}")
