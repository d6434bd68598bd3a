"""How KV is to be moved: what `--kv-transfer-config` says, in the words of vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self

from hookline.exceptions import ConfigError
from hookline.json_options import read_object

OPTION = "kv-transfer-config"


class KVRole(StrEnum):
    """What an engine does: gives KV away, takes it, or both."""

    PRODUCER = "kv_producer"
    CONSUMER = "kv_consumer"
    BOTH = "kv_both"


class LoadFailurePolicy(StrEnum):
    """What becomes of a request whose KV could not be loaded."""

    RECOMPUTE = "recompute"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTransferConfig:
    """Which connector moves KV, which way, and how long it may take.

    Attributes:
        kv_connector: Name in the entry-point group `hookline.connectors`.
        kv_role: A consumer saves nothing, a producer loads nothing.
        kv_load_failure_policy: Compute what a failed load should have brought, or end
            the request with an error.
        kv_load_timeout_seconds: A load that has not ended after so long has failed.
        kv_save_timeout_seconds: Blocks of ended requests are kept so long, at most,
            until they are saved.
        kv_connector_extra_config: The connector's own options; the plugin checks them.
    """

    kv_connector: str
    kv_role: KVRole = KVRole.BOTH
    kv_load_failure_policy: LoadFailurePolicy = LoadFailurePolicy.RECOMPUTE
    kv_load_timeout_seconds: float = 30.0
    kv_save_timeout_seconds: float = 480.0
    kv_connector_extra_config: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kv_connector, str) or not self.kv_connector:
            raise ConfigError(OPTION, "kv_connector must name an installed connector")
        _seconds("kv_load_timeout_seconds", self.kv_load_timeout_seconds)
        _seconds("kv_save_timeout_seconds", self.kv_save_timeout_seconds)
        if not isinstance(self.kv_connector_extra_config, dict):
            raise ConfigError(OPTION, "kv_connector_extra_config must be an object")

    @property
    def loads(self) -> bool:
        return self.kv_role is not KVRole.PRODUCER

    @property
    def saves(self) -> bool:
        return self.kv_role is not KVRole.CONSUMER

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: A key is unknown, or a value is missing or wrong.
        """
        known = [each.name for each in fields(cls)]
        for key in given:
            if key not in known:
                raise ConfigError(
                    OPTION,
                    f"there is no {key!r}; there are {', '.join(known)}. Options of "
                    "the connector itself belong into kv_connector_extra_config",
                )
        if "kv_connector" not in given:
            raise ConfigError(OPTION, "kv_connector is missing")
        values = dict(given)
        for name, kind in (
            ("kv_role", KVRole),
            ("kv_load_failure_policy", LoadFailurePolicy),
        ):
            if name in values:
                values[name] = _word(name, kind, values[name])
        return cls(**values)  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The same of a JSON object.

        Raises:
            ConfigError: It is none, or a key or value is wrong.
        """
        return cls.from_mapping(read_object(OPTION, text))


def _word(name: str, kind: type[StrEnum], value: object) -> StrEnum:
    if value not in list(kind):
        raise ConfigError(
            OPTION, f"{name} must be one of {', '.join(kind)}, not {value!r}"
        )
    return kind(str(value))


def _seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(OPTION, f"{name} must be a number, not {value!r}")
    if not 0 < value < float("inf"):
        raise ConfigError(OPTION, f"{name} must be above 0, not {value}")
