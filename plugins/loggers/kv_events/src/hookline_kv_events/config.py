"""Publication of the prefix cache's changes: `--kv-events-config`.

Keys and defaults are those of vLLM, but without an endpoint only this machine can read.
`encoding` is Hookline's own: vLLM's versions write one or the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar, Self

from hookline.config.checks import check_keys, check_whole, one_of
from hookline.config.engine import EngineConfig
from hookline.config.options import option
from hookline.config.sections import ConfigSection
from hookline.exceptions import ConfigError
from hookline_processes.addresses import AddressError, HostPort

OPTION = "kv-events-config"
TCP = "tcp://"

LOOPBACK = "tcp://127.0.0.1:5557"
"""Where batches are published unless an endpoint is set; vLLM's port."""


class KVEventsEncoding(StrEnum):
    """Encoding of an event: fields by position, or by name as since vLLM 0.24."""

    ARRAY = "array"
    MAP = "map"


class KVEventsPublisher(StrEnum):
    """Publisher: the logger `kv_events`, or none except other loggers."""

    ZMQ = "zmq"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVEventsConfig:
    """Publication of the prefix cache's changes.

    Attributes:
        enable_kv_cache_events: Whether the engine reports changes of the prefix cache.
        publisher: `zmq` publishes them; `null` only calls the loggers' `cache_changed`.
        endpoint: Address of the PUB socket. It is bound if it contains `*` or `::` or
            is not a TCP address, otherwise connected to. None binds `LOOPBACK`. The
            engine's index is added to a TCP port.
        replay_endpoint: Address of the ROUTER socket that replays batches, always
            bound; None replays none.
        buffer_steps: Number of batches kept for replay.
        hwm: Maximum number of batches queued for a slow subscriber; it misses further
            ones.
        max_queue_size: Maximum number of batches waiting to be published.
        topic: First frame of every message.
        encoding: `array` for events whose fields have positions, `map` for events whose
            fields have names, among them `session_id`.
    """

    enable_kv_cache_events: bool = False
    publisher: KVEventsPublisher = KVEventsPublisher.ZMQ
    endpoint: str | None = None
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""
    encoding: KVEventsEncoding = KVEventsEncoding.ARRAY

    def __post_init__(self) -> None:
        if not isinstance(self.enable_kv_cache_events, bool):
            raise ConfigError(OPTION, "enable_kv_cache_events must be true or false")
        one_of(OPTION, "publisher", KVEventsPublisher, self.publisher)
        one_of(OPTION, "encoding", KVEventsEncoding, self.encoding)
        check_whole(OPTION, "buffer_steps", self.buffer_steps)
        check_whole(OPTION, "hwm", self.hwm)
        check_whole(OPTION, "max_queue_size", self.max_queue_size)
        if self.endpoint is not None:
            _check_endpoint("endpoint", self.endpoint)
        if self.replay_endpoint is not None:
            _check_endpoint("replay_endpoint", self.replay_endpoint)
        if not isinstance(self.topic, str):
            raise ConfigError(OPTION, f"topic must be text, not {self.topic!r}")

    @property
    def logger(self) -> str:
        """Name of the stat logger that publishes; empty if none does."""
        is_published = self.publisher == KVEventsPublisher.ZMQ
        return "kv_events" if self.enable_kv_cache_events and is_published else ""

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from the keys that users write.

        Raises:
            ConfigError: A key is unknown, or a value is wrong.
        """
        check_keys(OPTION, given, [each.name for each in fields(cls)])
        return cls(**given)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class KVEventsSection(ConfigSection):
    """The section `kv_events` of a configuration.

    Attributes:
        publication: What is published; None for nothing.
    """

    key: ClassVar = "kv_events"
    group: ClassVar = "KV cache"

    publication: KVEventsConfig | None = option(
        "Publish the prefix cache's stored and removed blocks, such as "
        '{"enable_kv_cache_events": true}.',
        default=None,
        flag=OPTION,
        metavar="JSON",
        read_mapping=KVEventsConfig.from_mapping,
    )

    def check(self, config: EngineConfig) -> None:
        """Raises `ConfigError` without a prefix cache, or without ports for all."""
        if not self.follows_cache:
            return
        if not config.cache.enable_prefix_caching:
            raise ConfigError(OPTION, "requires enable-prefix-caching")
        if self.publication is not None and self.publication.logger:
            _check_ports(self.publication, config.engine_indices)

    def derived(self, config: EngineConfig) -> Mapping[str, object]:
        """Has the engine report the changes, and the logger publish them."""
        del config
        publisher = self.publication.logger if self.publication is not None else ""
        return {
            "follows_cache": self.follows_cache,
            "implied_loggers": (publisher,) if publisher else (),
        }

    @property
    def follows_cache(self) -> bool:
        """Whether the engine reports changes of the prefix cache."""
        found = self.publication
        return found is not None and found.enable_kv_cache_events


def tcp_address(endpoint: str, rank: int = 0) -> HostPort:
    """Returns where an engine's socket of a TCP endpoint is; port `*` is a free one.

    Raises:
        AddressError: It is no address, or its port is too high for the engine's index.
    """
    place = endpoint.removeprefix(TCP)
    if place.endswith(":*"):
        place = place.removesuffix("*") + "0"
    return HostPort.read(place).plus(rank)


def _check_ports(config: KVEventsConfig, ranks: Sequence[int]) -> None:
    """Checks that every engine's ports exist, and that none is for two sockets."""
    taken: set[tuple[str, int]] = set()
    for name in ("endpoint", "replay_endpoint"):
        endpoint = getattr(config, name) or (LOOPBACK if name == "endpoint" else "")
        if not endpoint.startswith(TCP):
            continue
        try:
            places = [tcp_address(endpoint, rank) for rank in ranks]
        except AddressError as error:
            raise ConfigError(OPTION, f"{name}: {error}") from error
        own = {(each.host, each.port) for each in places if each.port}
        if both := sorted(own & taken):
            raise ConfigError(
                OPTION,
                f"{name}: port {both[0][1]} is also an engine's endpoint, because each "
                f"of {len(ranks)} engines adds its index",
            )
        taken |= own


def _check_endpoint(name: str, value: object) -> None:
    schemes = (TCP, "ipc://", "inproc://")
    if not isinstance(value, str) or not value.startswith(schemes):
        raise ConfigError(
            OPTION, f"{name} must begin with {', '.join(schemes)}, not be {value!r}"
        )
    if value.startswith(TCP):
        try:
            tcp_address(value)
        except AddressError as error:
            raise ConfigError(OPTION, f"{name}: {error}") from error
