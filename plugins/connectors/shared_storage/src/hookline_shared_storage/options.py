"""What `kv_connector_extra_config` says to this connector."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from hookline.config.kv_transfer import OPTION
from hookline.exceptions import ConfigError
from hookline.json_options import refuse_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """Where blocks lie, and how they are moved.

    Attributes:
        shared_storage_path: The folder; it is made if need be.
        max_bytes: Of all files together; the least recently used ones go first.
        load_async: Let requests wait for their blocks while others are computed; else a
            step waits for them.
        num_threads: That read files.
        max_pending_bytes: Blocks that wait to be written, at most; more are not saved.
    """

    shared_storage_path: Path
    max_bytes: int = 10 * 2**30
    load_async: bool = True
    num_threads: int = 2
    max_pending_bytes: int = 256 * 2**20

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Self:
        """What users write.

        Raises:
            ConfigError: An option is unknown, missing or wrong.
        """
        known = [each.name for each in fields(cls)]
        refuse_unknown("shared_storage", OPTION, given, known)
        for name, value in given.items():
            if name == "load_async":
                if not isinstance(value, bool):
                    raise ConfigError(OPTION, f"{name} must be true or false")
            elif name != "shared_storage_path" and (
                type(value) is not int or value < 1
            ):
                raise ConfigError(
                    OPTION, f"{name} must be a whole number above 0, not {value!r}"
                )
        path = given.get("shared_storage_path")
        if not isinstance(path, str) or not path:
            raise ConfigError(
                OPTION, "shared_storage needs shared_storage_path, the folder to use"
            )
        rest = {key: value for key, value in given.items() if key in known[1:]}
        return cls(shared_storage_path=Path(path), **rest)  # type: ignore[arg-type]
