"""What every request for the engine says besides what it is to generate or embed."""

from typing import Protocol


class EngineRequest(Protocol):
    """The fields that all endpoints treat alike."""

    @property
    def model(self) -> str | None: ...
    @property
    def is_streamed(self) -> bool: ...
    @property
    def priority(self) -> int | None: ...
    @property
    def cache_salt(self) -> str | None: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def kv_transfer_params(self) -> dict[str, object] | None: ...
