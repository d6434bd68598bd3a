"""Options of the connector, from `kv_connector_extra_config`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.config.checks import check_whole, refuse_unknown
from hookline.exceptions import ConfigError
from hookline_kv_transfer.config import OPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """Where blocks are stored, and how they are moved.

    Attributes:
        shared_storage_path: Folder of the files; created if missing.
        max_bytes: Maximum size of all files; the least recently used are deleted.
        load_async: Whether requests wait for their blocks while others are computed;
            otherwise the step waits.
        num_threads: Number of threads that read files.
        max_pending_bytes: Maximum size of blocks that wait to be written; further
            blocks are not saved.
    """

    shared_storage_path: Path
    max_bytes: int = 10 * 2**30
    load_async: bool = True
    num_threads: int = 2
    max_pending_bytes: int = 256 * 2**20

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """Returns the options of a JSON object.

        Raises:
            ConfigError: An option is unknown, missing or wrong.
        """
        known = [each.name for each in fields(cls)]
        refuse_unknown("shared_storage", OPTION, given, known)
        for name, value in given.items():
            if name == "load_async":
                if not isinstance(value, bool):
                    raise ConfigError(OPTION, f"{name} must be true or false")
            elif name != "shared_storage_path":
                check_whole(OPTION, name, value)
        path = given.get("shared_storage_path")
        if not isinstance(path, str) or not path:
            raise ConfigError(
                OPTION, "shared_storage needs shared_storage_path, the folder to use"
            )
        rest = {key: value for key, value in given.items() if key in known[1:]}
        return cls(shared_storage_path=Path(path), **rest)  # type: ignore[arg-type]
