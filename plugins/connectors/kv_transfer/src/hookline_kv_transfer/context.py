"""What a KV connector is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hookline.config import EngineConfig
from hookline_kv_transfer.config import KVTransferConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorContext:
    """Payload of `create_kv_connector`.

    Attributes:
        role: `scheduler` or `worker`: the Protocol to implement.
        config: The engine's configuration.
        transfer: `--kv-transfer-config`.
        options: `kv_connector_extra_config` in it.
    """

    role: str
    config: EngineConfig
    transfer: KVTransferConfig
    options: Mapping[str, object] = field(default_factory=dict)
