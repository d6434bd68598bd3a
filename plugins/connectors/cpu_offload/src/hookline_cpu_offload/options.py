"""Options of the connector, from `kv_connector_extra_config`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from hookline.config.checks import check_whole, refuse_unknown
from hookline.exceptions import ConfigError
from hookline_host.memory import total_memory
from hookline_kv_transfer import KVLayout, KVRole, KVTransferConfig
from hookline_kv_transfer.config import OPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOptions:
    """The tier on disk.

    Attributes:
        path: Folder in the format of shared_storage; created if missing.
        max_bytes: Maximum size of all files; the least recently used are deleted.
        max_pending_bytes: Maximum size of blocks that wait to be written; further
            blocks are dropped.
    """

    path: Path
    max_bytes: int = 10 * 2**30
    max_pending_bytes: int = 256 * 2**20

    @classmethod
    def from_mapping(cls, given: object) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown, missing or wrong, or shared storage is
                not installed.
        """
        if not isinstance(given, Mapping):
            raise ConfigError(OPTION, "cpu_offload's disk must be an object, or null")
        refuse_unknown(
            "cpu_offload's disk", OPTION, given, [each.name for each in fields(cls)]
        )
        path = given.get("path")
        if not isinstance(path, str) or not path:
            raise ConfigError(
                OPTION, "cpu_offload's disk needs path, the folder to use"
            )
        sizes = {name: value for name, value in given.items() if name != "path"}
        for name, value in sizes.items():
            check_whole(OPTION, f"cpu_offload's disk: {name}", value)
        if find_spec("hookline_shared_storage") is None:
            raise ConfigError(
                OPTION,
                "cpu_offload's disk needs hookline-shared-storage, which is not "
                "installed",
            )
        return cls(path=Path(path), **sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadOptions:
    """Sizes of the tiers.

    Attributes:
        cpu_bytes_to_use: Bytes of host memory, touched as they are filled; vLLM's name.
        disk: The tier for blocks evicted from host memory; None drops them.
    """

    cpu_bytes_to_use: int = 4 * 2**30
    disk: DiskOptions | None = None

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown or wrong.
        """
        refuse_unknown(
            "cpu_offload", OPTION, given, [each.name for each in fields(cls)]
        )
        size = given.get("cpu_bytes_to_use", 4 * 2**30)
        check_whole(OPTION, "cpu_bytes_to_use", size)
        assert isinstance(size, int)
        memory = total_memory()
        if size > memory:
            raise ConfigError(
                OPTION,
                f"cpu_bytes_to_use is {size}, and this process may take {memory} bytes",
            )
        disk = given.get("disk")
        return cls(
            cpu_bytes_to_use=size,
            disk=None if disk is None else DiskOptions.from_mapping(disk),
        )

    def num_slots(self, layout: KVLayout) -> int:
        """Returns how many blocks fit host memory.

        Raises:
            ConfigError: No block fits.
        """
        count = self.cpu_bytes_to_use // layout.total_bytes
        if not count:
            raise ConfigError(
                OPTION,
                f"cpu_bytes_to_use is {self.cpu_bytes_to_use}, and one block of this "
                f"model has {layout.total_bytes} bytes",
            )
        return count


def check_role(config: KVTransferConfig) -> None:
    """Raises `ConfigError` unless the engine both saves and loads."""
    if config.kv_role is not KVRole.BOTH:
        raise ConfigError(
            OPTION,
            "cpu_offload saves and loads: its kv_role is kv_both, not "
            f"{config.kv_role}",
        )
