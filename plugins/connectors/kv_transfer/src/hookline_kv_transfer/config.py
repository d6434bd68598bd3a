"""Transfers of KV blocks: `--kv-transfer-config`, with the keys of vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Self

from hookline.config.checks import check_keys, check_seconds, one_of
from hookline.config.extensions import KV_TRANSFER_OPTION
from hookline.exceptions import ConfigError

OPTION = KV_TRANSFER_OPTION

VLLM_NAMES = {
    "ExampleConnector": "shared_storage",
    "NixlConnector": "p2p",
    "OffloadingConnector": "cpu_offload",
    "P2pNcclConnector": "p2p",
    "SharedStorageConnector": "shared_storage",
}
"""vLLM's names of connectors, and those that do the same here."""


class KVRole(StrEnum):
    """Direction of an engine's transfers: saves KV, loads KV, or both."""

    PRODUCER = "kv_producer"
    CONSUMER = "kv_consumer"
    BOTH = "kv_both"


class LoadFailurePolicy(StrEnum):
    """Handling of a request whose KV could not be loaded."""

    RECOMPUTE = "recompute"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTransferConfig:
    """The KV connector, the direction of its transfers and their timeouts.

    Attributes:
        kv_connector: Name in the entry-point group `hookline.connectors`; one of vLLM's
            in `VLLM_NAMES` becomes ours.
        kv_role: A producer loads nothing, a consumer saves nothing.
        kv_load_failure_policy: Recompute the blocks of a failed load, or fail the
            request.
        kv_load_timeout_seconds: Time after which a load has failed.
        kv_save_timeout_seconds: Maximum time that blocks of finished requests are kept
            until they are saved.
        kv_save_grace_seconds: Time for which they are kept, and kept after each read,
            even if a waiting request needs the blocks.
        kv_call_timeout_seconds: Time after which a call of the connector's worker side
            has hung; it is then never called again.
        kv_connector_extra_config: Options of the connector; the plugin checks them.
    """

    kv_connector: str
    kv_role: KVRole = KVRole.BOTH
    kv_load_failure_policy: LoadFailurePolicy = LoadFailurePolicy.RECOMPUTE
    kv_load_timeout_seconds: float = 30.0
    kv_save_timeout_seconds: float = 480.0
    kv_save_grace_seconds: float = 5.0
    kv_call_timeout_seconds: float = 10.0
    kv_connector_extra_config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kv_connector, str) or not self.kv_connector:
            raise ConfigError(OPTION, "kv_connector must name an installed connector")
        connector = VLLM_NAMES.get(self.kv_connector, self.kv_connector)
        object.__setattr__(self, "kv_connector", connector)
        for name, kind in (
            ("kv_role", KVRole),
            ("kv_load_failure_policy", LoadFailurePolicy),
        ):
            value = one_of(OPTION, name, kind, getattr(self, name))
            object.__setattr__(self, name, value)
        for name in (
            "kv_load_timeout_seconds",
            "kv_save_timeout_seconds",
            "kv_save_grace_seconds",
            "kv_call_timeout_seconds",
        ):
            check_seconds(OPTION, name, getattr(self, name))
        if not isinstance(self.kv_connector_extra_config, Mapping):
            raise ConfigError(OPTION, "kv_connector_extra_config must be an object")

    @property
    def loads(self) -> bool:
        return self.kv_role is not KVRole.PRODUCER

    @property
    def saves(self) -> bool:
        return self.kv_role is not KVRole.CONSUMER

    def section(self) -> dict[str, object]:
        """Returns it as `EngineConfig.kv_transfer`, without what is not set."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        unset = {each.name: each.default for each in fields(self)}
        unset["kv_connector_extra_config"] = {}
        return {name: one for name, one in values.items() if one != unset[name]}

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Makes the configuration from the keys that users write.

        Raises:
            ConfigError: A key is unknown, or a value is missing or wrong.
        """
        hint = "Options of the connector itself belong in kv_connector_extra_config"
        check_keys(OPTION, given, [each.name for each in fields(cls)], hint=hint)
        if "kv_connector" not in given:
            raise ConfigError(OPTION, "kv_connector is missing")
        return cls(**given)  # type: ignore[arg-type]
